"""Counts of the control questions that were made, and of those that were not, by reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from mbbq_gen.core.records import FrozenModel, Instance

if TYPE_CHECKING:
    from mbbq_gen.benchmarks.control.maker import Made


class TemplateRefusal(FrozenModel):
    """Questions of one template that were left out for one reason."""

    language: str
    template_id: str
    reason: str
    questions: int
    of: int
    what: str


class ControlCounts(FrozenModel):
    """Which bias questions have a control question that was made, and why the others have none."""

    questions: int
    made: int
    reasons: dict[str, int]
    templates: tuple[TemplateRefusal, ...]
    """Template by template and reason by reason, the most frequent first."""

    @property
    def sentence(self) -> str:
        """The counts in words."""
        left = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.items())
        said = f"made for {self.made:,} of {self.questions:,} bias questions"
        return f"{said}; left out: {left}" if left else said


class ControlCoverage:
    """The counts, as questions pass."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()
        """Questions by language, category, template and reason; the reason is empty where one was made."""
        self._what: dict[tuple[str, ...], str] = {}

    def add(self, instance: Instance, made: Made) -> None:
        """Counts a bias question and what became of it."""
        language, template = instance.language, instance.template_id
        reason = "" if isinstance(made, Instance) else made.reason
        self._counts[language, instance.category, template, reason] += 1
        if not isinstance(made, Instance):
            self._what.setdefault((language, template, reason), made.what)

    def _by(self, *places: int) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for key, count in self._counts.items():
            found[tuple(key[place] for place in places)] += count
        return found

    def categories(self) -> list[dict[str, Any]]:
        """Language, category, questions, made, and skipped by reason, in the order in which they came."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for key, questions in self._by(0, 1).items():
            found[key] = {"language": key[0], "category": key[1], "questions": questions, "made": 0, "skipped": {}}
        for (*where, reason), count in sorted(self._by(0, 1, 3).items()):
            here = found[tuple(where)]
            if reason:
                here["skipped"][reason] = count
            else:
                here["made"] = count
        return list(found.values())

    def counts(self) -> ControlCounts:
        """The counts as a record, without categories."""
        reasons, of_template = self._by(3), self._by(0, 2)
        templates = tuple(
            TemplateRefusal(
                language=language,
                template_id=template,
                reason=reason,
                questions=count,
                of=of_template[language, template],
                what=self._what[language, template, reason],
            )
            for (language, template, reason), count in self._by(0, 2, 3).most_common()
            if reason
        )
        left = {reason: count for (reason,), count in reasons.most_common() if reason}
        return ControlCounts(questions=reasons.total(), made=reasons[("",)], reasons=left, templates=templates)

    def summary(self) -> dict[str, Any]:
        """The counts as JSON."""
        counts = self.counts()
        skipped = {"skipped": counts.questions - counts.made, "categories": self.categories()}
        return {**counts.model_dump(), **skipped}
