"""Counts of the control questions that were made, and of the refusals by reason."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from mbbq_gen.core.records import FrozenModel, Instance

if TYPE_CHECKING:
    from mbbq_gen.benchmarks.control.maker import Made


class TemplateRefusal(FrozenModel):
    """Questions of one template that were refused for one reason."""

    language: str
    template_id: str
    reason: str
    questions: int
    of: int
    what: str


class ControlCounts(FrozenModel):
    """Numbers of bias questions, of control questions made of them, and of refusals."""

    questions: int
    made: int
    reasons: dict[str, int]
    templates: tuple[TemplateRefusal, ...]
    """Refusals by template and reason, the most frequent first."""

    @property
    def sentence(self) -> str:
        """The counts as a sentence."""
        refused = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.items())
        made = f"made for {self.made:,} of {self.questions:,} bias questions"
        return f"{made}; left out: {refused}" if refused else made


class ControlCoverage:
    """Counts the results of `ControlGenerator.make`."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, ...]] = Counter()
        """Questions by language, category, template and reason; the reason is empty if one was made."""
        self._what: dict[tuple[str, ...], str] = {}

    def add(self, instance: Instance, made: Made) -> None:
        """Counts a bias question and its result."""
        language, template = instance.language, instance.template_id
        reason = "" if isinstance(made, Instance) else made.reason
        self._counts[language, instance.category, template, reason] += 1
        if not isinstance(made, Instance):
            self._what.setdefault((language, template, reason), made.what)

    def _by(self, *fields: int) -> Counter[tuple[str, ...]]:
        found: Counter[tuple[str, ...]] = Counter()
        for key, count in self._counts.items():
            found[tuple(key[field] for field in fields)] += count
        return found

    def categories(self) -> list[dict[str, Any]]:
        """Numbers of questions, made and skipped by reason, for each language and category in order of appearance."""
        found: dict[tuple[str, ...], dict[str, Any]] = {}
        for key, questions in self._by(0, 1).items():
            found[key] = {"language": key[0], "category": key[1], "questions": questions, "made": 0, "skipped": {}}
        for (language, category, reason), count in sorted(self._by(0, 1, 3).items()):
            if reason:
                found[language, category]["skipped"][reason] = count
            else:
                found[language, category]["made"] = count
        return list(found.values())

    def counts(self) -> ControlCounts:
        """The counts without categories."""
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
        refused = {reason: count for (reason,), count in reasons.most_common() if reason}
        return ControlCounts(questions=reasons.total(), made=reasons[("",)], reasons=refused, templates=templates)

    def summary(self) -> dict[str, Any]:
        """The counts as JSON."""
        counts = self.counts()
        skipped = {"skipped": counts.questions - counts.made, "categories": self.categories()}
        return {**counts.model_dump(), **skipped}
