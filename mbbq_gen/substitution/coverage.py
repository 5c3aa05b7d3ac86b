"""Which questions have a control question, and why the others have none: counts by category, reason and template."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from mbbq_gen.records import Instance, Record
from mbbq_gen.substitution.questions import LeftOut, Made


class CategoryCoverage(Record):
    """What became of the questions of a category in one language."""

    language: str
    category: str
    questions: int
    made: int
    left_out: dict[str, int]
    """Reason → questions."""


class TemplateRefusal(Record):
    """Questions of one template that were left out for one reason."""

    language: str
    template_id: str
    reason: str
    """One of REASONS."""
    questions: int
    of: int
    """Questions that the template has."""
    what: str
    """The words at which the first of them failed."""


class ControlCounts(Record):
    """Which bias questions have a control question that was made, and why the others have none."""

    questions: int
    made: int
    reasons: dict[str, int]
    """Reason → questions left out, the most frequent first."""
    templates: tuple[TemplateRefusal, ...]
    """Template by template and reason by reason, the most frequent first."""

    @property
    def sentence(self) -> str:
        """The counts in words."""
        left = ", ".join(f"{reason} {count:,}" for reason, count in self.reasons.items())
        said = f"made for {self.made:,} of {self.questions:,} bias questions"
        return f"{said}; left out: {left}" if left else said


class Sample(Record):
    """The first control question made of a template, beside its bias question."""

    key: str
    context: str
    question: str
    control_context: str
    control_question: str


class Coverage:
    """The counts, as questions pass."""

    def __init__(self) -> None:
        self._asked: Counter[tuple[str, str]] = Counter()
        self._made: Counter[tuple[str, str]] = Counter()
        self._reasons: Counter[tuple[str, str, str]] = Counter()
        self._of_template: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[tuple[str, str, str]] = Counter()
        self._what: dict[tuple[str, str, str], str] = {}
        self._samples: dict[tuple[str, str], Sample] = {}

    def add(self, instance: Instance, made: Made | LeftOut) -> None:
        """Counts a bias question and what became of it."""
        language, template = instance.language, instance.template_id
        self._asked[language, instance.category] += 1
        self._of_template[language, template] += 1
        if isinstance(made, LeftOut):
            refusal = language, template, made.reason
            self._reasons[language, instance.category, made.reason] += 1
            self._refused[refusal] += 1
            self._what.setdefault(refusal, made.what)
            return
        self._made[language, instance.category] += 1
        if (language, template) not in self._samples:
            self._samples[language, template] = _sample(instance, made.instance)

    @property
    def questions(self) -> int:
        """How many bias questions there are."""
        return self._asked.total()

    @property
    def made(self) -> int:
        """How many of them have a control question."""
        return self._made.total()

    @property
    def reasons(self) -> dict[str, int]:
        """Reason → questions, the most frequent first."""
        counts: Counter[str] = Counter()
        for (_, _, reason), count in self._reasons.items():
            counts[reason] += count
        return dict(counts.most_common())

    def categories(self) -> Iterator[CategoryCoverage]:
        """The categories, in the order in which they came."""
        for language, category in self._asked:
            reasons = {
                reason: count
                for (code, name, reason), count in sorted(self._reasons.items())
                if (code, name) == (language, category)
            }
            yield CategoryCoverage(
                language=language,
                category=category,
                questions=self._asked[language, category],
                made=self._made[language, category],
                left_out=reasons,
            )

    def refusals(self) -> Iterator[TemplateRefusal]:
        """Template by template and reason by reason, the most frequent first."""
        for (language, template, reason), count in self._refused.most_common():
            yield TemplateRefusal(
                language=language,
                template_id=template,
                reason=reason,
                questions=count,
                of=self._of_template[language, template],
                what=self._what[language, template, reason],
            )

    def samples(self) -> Iterator[Sample]:
        """One question of each template that has one, in the order in which they came."""
        yield from self._samples.values()

    def counts(self) -> ControlCounts:
        """The counts as a record, without categories and samples."""
        return ControlCounts(
            questions=self.questions, made=self.made, reasons=self.reasons, templates=tuple(self.refusals())
        )

    def summary(self) -> dict[str, Any]:
        """The counts as JSON."""
        return {
            **self.counts().model_dump(),
            "left_out": self.questions - self.made,
            "categories": [part.model_dump() for part in self.categories()],
        }


def _sample(bias: Instance, control: Instance) -> Sample:
    return Sample(
        key=bias.key,
        context=bias.context,
        question=bias.question,
        control_context=control.context,
        control_question=control.question,
    )
