"""The design that reaches a width for the least money, or the narrowest that an amount buys: a decision study.

Generalizability theory (Brennan 2001, "Generalizability Theory", ch. 4) takes a score apart into components of
variance and says what each would be under another design. A design asks, in every language and split,

    N templates × n answers of each: m questions in k prompt variants and o orders each, n = m · k · o; a template that
    has fewer questions gives its n answers in other prompt variants and orders, as far as there are some

and the questions take K ≥ k prompt variants in turns. The variance is that of `mbbq_gen.analysis.power`, in which a
template meets min(K, m·k) prompt variants and templates count alike; that of a random-effects mean is 1 / Σ 1 / u_t,
u_t being the variance of one template. A width is that of a 95 % interval, 2 · t(N − 1) · √variance; random prompt
variants have t with K − 1 degrees of freedom, and the squares of the two are added.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from scipy import special

from mbbq_gen.analysis import power
from mbbq_gen.analysis.power import VarianceAssumptions
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.codes import MIN_TEMPLATES, TOO_FEW, Average, PromptEffects
from mbbq_gen.scoring.metrics import Metric
from mbbq_gen.scoring.tally import QUESTION, TEMPLATE, answer_scores
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.intervals import MIN_PROMPT_VARIANTS, TOO_FEW_PROMPT_VARIANTS
from mbbq_gen.statistics.variance_components import (
    Cells,
    Codes,
    Term,
    TooFewCellsError,
    estimate_components,
    variance_components,
)

DesignTarget = Literal["score", "difference between languages"]
_QUESTIONS: Final[dict[DesignTarget, power.Question]] = {
    "score": "one score against 0",
    "difference between languages": "two languages",
}
EVERY: Final = 48
"""Numbers of questions up to which each is looked at; above, every step is a twentieth."""
ORDERS: Final = (1, 2, 3, 6)


class Components(FrozenModel):
    """Standard deviations that designs are judged by, in units of the score."""

    assumptions: VarianceAssumptions
    question_share: float
    """Share of the variance of one answer that is due to its question: asking again does not lessen it."""
    question_source: str


_SHARES: Final = VarianceAssumptions(
    **{name: sd / 2 for name, sd in power.DEFAULTS.model_dump(exclude={"answer", "source"}).items()},
    answer=0.5,
    source="assumed, of a share near one half; give --pilot RUN to take those of a run",
)


def assumed_components(metric: Metric) -> Components:
    """The assumed components of a bias from −1 to 1, or of a share from 0 to 1, without a pilot run."""
    return Components(
        assumptions=power.DEFAULTS if metric.low < 0 else _SHARES,
        question_share=power.QUESTION_SHARE,
        question_source="assumed; give --pilot RUN to measure it",
    )


@dataclass(frozen=True)
class DesignSpace:
    """The questions, prompt variants and orders that there are in each language and split."""

    stock: tuple[int, ...]
    """Questions of each template that count for the metric."""
    prompt_variants: int
    orders: int
    """Option orders of the policy: 1, 3 or 6."""
    cells: int
    """Languages × splits."""

    def check(self, speaks_of: PromptEffects) -> None:
        """Refuses too few templates, or prompt variants that are to speak of others (UsageError)."""
        if len(self.stock) < MIN_TEMPLATES:
            raise UsageError(f"{len(self.stock)} template(s) have questions that count for the metric: {TOO_FEW}")
        if speaks_of == "random" and self.prompt_variants < MIN_PROMPT_VARIANTS:
            raise UsageError(
                f"{self.prompt_variants} prompt variant(s): {TOO_FEW_PROMPT_VARIANTS}; give more with --variants"
            )


_Shape = tuple[int, int, int]
"""Prompt variants in all, prompt variants of a question, orders."""


class StudyDesign(FrozenModel):
    """One way to spread questions, and what it reaches."""

    templates: int
    questions: int
    """Of each template; all of a template's where it has fewer."""
    prompt_variants: int
    """That the questions take in turns."""
    prompt_variants_each: int
    orders_each: int
    answers: int
    """Of a template in each language and split, or as many as it can give."""
    requests: int
    cost: float | None
    """US dollars; None where no price is known."""
    batch_cost: float | None
    width: float
    """Of the 95 % interval that `score` shows, with `--prompt-effects` as given here."""

    @property
    def shape(self) -> _Shape:
        """Prompt variants in all, those of a question, and orders."""
        return self.prompt_variants, self.prompt_variants_each, self.orders_each


class Price(FrozenModel):
    """The mean cost of one request, over languages and prompt variants."""

    online: float | None
    batch: float | None


def question_counts(most: int) -> tuple[int, ...]:
    """The numbers of questions that are looked at, up to the largest template's."""
    counts = list(range(1, min(most, EVERY) + 1))
    while counts[-1] < most:
        counts.append(min(most, counts[-1] + max(1, counts[-1] // 20)))
    return tuple(counts)


@dataclass(frozen=True)
class DesignSearch:
    """All designs of a grid."""

    target: DesignTarget
    components: Components
    offer: DesignSpace
    price: Price
    confidence: float = 0.95
    speaks_of: PromptEffects = "fixed"
    average: Average = "questions"
    """A design uses templates alike, so that a mean over its questions is the plain mean over templates."""

    def ranked(self, *, width: float | None = None, requests: float | None = None) -> list[StudyDesign]:
        """The best designs, best first, each of other prompt variants, prompt variants of a question or orders.

        With a width, those of the fewest requests whose interval is no wider; without one, those of the narrowest
        interval with no more requests. One that asks everything comes first or not at all.
        """
        most, everything = self.offer.prompt_variants, self.everything()
        orders = [count for count in ORDERS if count <= self.offer.orders]
        shapes = (
            (variants, each, n) for variants in range(1, most + 1) for each in range(1, variants + 1) for n in orders
        )
        found = [design for shape in shapes if (design := self._best_of(shape, width=width, requests=requests))]
        found.sort(key=lambda one: (one.width, one.requests) if width is None else (one.requests, one.width))
        if found and found[0].requests == everything.requests:
            found[0] = everything
        return found[:1] + [
            one for one in found[1:] if one.requests < everything.requests and one.shape != found[0].shape
        ]

    def as_run(self, *, width: float | None = None, requests: float | None = None) -> StudyDesign | None:
        """The best that `run --answers-per-template` can ask: all templates, prompt variants in turns, no repeats."""
        shape = (self.offer.prompt_variants, 1, 1)
        return self._best_of(shape, width=width, requests=requests, fewest=len(self.offer.stock))

    def everything(self) -> StudyDesign:
        """All questions in all prompt variants and orders: no money buys a narrower interval."""
        offer = self.offer
        return self.at(len(offer.stock), max(offer.stock), offer.prompt_variants, offer.prompt_variants, offer.orders)

    def _best_of(
        self, shape: _Shape, *, width: float | None, requests: float | None, fewest: int = MIN_TEMPLATES
    ) -> StudyDesign | None:
        """The fewest requests that reach the width, or the narrowest of so many requests; None where none does."""
        offer = self.offer
        templates = np.arange(fewest, len(offer.stock) + 1, dtype=np.float64)[:, None]
        most = -(-max(offer.stock) * offer.prompt_variants * offer.orders // (shape[1] * shape[2]))
        questions = np.array(question_counts(most), dtype=np.float64)[None, :]
        needed, widths = self._measured(shape, templates, questions)
        values = np.where(needed <= (requests or 0.0), widths, np.inf)
        if width is not None:
            values = np.where(widths <= width, needed, np.inf)
        row, column = np.unravel_index(int(values.argmin()), values.shape)
        if not np.isfinite(values[row, column]):
            return None
        return self.at(int(templates[row, 0]), int(questions[0, column]), *shape)

    def at(self, templates: int, questions: int, variants: int, each: int, orders: int = 1) -> StudyDesign:
        """The design with these numbers; `each`: prompt variants of every question."""
        place = np.array([[float(templates)]]), np.array([[float(questions)]])
        needed, widths = self._measured((variants, each, orders), *place)
        requests, price = round(float(needed[0, 0])), self.price
        return StudyDesign(
            templates=templates,
            questions=min(questions, max(self.offer.stock)),
            prompt_variants=variants,
            prompt_variants_each=each,
            orders_each=orders,
            answers=questions * each * orders,
            requests=requests,
            cost=None if price.online is None else requests * price.online,
            batch_cost=None if price.batch is None else requests * price.batch,
            width=float(widths[0, 0]),
        )

    def _measured(self, shape: _Shape, templates: Array, questions: Array) -> tuple[Array, Array]:
        """Requests and widths, by templates × questions; which of the templates is left to chance."""
        (variants, each, orders), offer, sd = shape, self.offer, self.components.assumptions
        question, level = _QUESTIONS[self.target], 0.5 + self.confidence / 2
        stock = np.array(offer.stock, dtype=np.float64)
        taken = np.minimum(questions[..., None], stock)
        given = np.minimum(questions[..., None] * each * orders, stock * offer.prompt_variants * offer.orders)
        answer = power.answer_variance(sd.answer, self.components.question_share, taken, given)
        met = np.minimum(variants, questions * each)  # prompt variants that a template meets
        if self.average == "random-effects":  # templates weighted by the inverse of their variances
            own = np.maximum(power.variance_of(question, sd, 1.0, met[..., None], answer), _LEAST_VARIANCE)
            variance = np.asarray(1 / (1 / own).mean(axis=-1) / templates)
        else:
            variance = power.variance_of(question, sd, templates, met, answer.mean(axis=-1) / templates)
        squares = special.stdtrit(templates - 1, level) ** 2 * variance
        if self.speaks_of == "random":
            reach = special.stdtrit(variants - 1, level) if variants >= MIN_PROMPT_VARIANTS else float("inf")
            squares = squares + reach**2 * power.variance_of_variants(question, sd, variants)
        return templates * given.mean(axis=-1) * offer.cells, 2 * squares**0.5


_LEAST_VARIANCE: Final = 1e-12


LEAST_FREEDOM: Final = 20
"""Fewest degrees of freedom for estimating the variance within a template: answers minus groups."""


def measured_components(frame: pl.DataFrame, metric: Metric, source: str) -> Components:
    """The components of the bias split of a run; raises as `measured_assumptions`."""
    bias = frame.filter(pl.col("split") == "bias")
    share = question_share(bias, metric)
    return Components(
        assumptions=measured_assumptions(bias, metric, source),
        question_share=power.QUESTION_SHARE if share is None else share,
        question_source="assumed: no question has two answers there" if share is None else f"taken from {source}",
    )


def measured_assumptions(frame: pl.DataFrame, metric: Metric, source: str) -> VarianceAssumptions:
    """The standard deviations that the answers of one split tell; what they don't keeps the assumed one.

    Where hardly any prompt variant was met twice by a template, chance can't be estimated from prompt variants. Then it
    is taken within templates, languages and kinds of question, and templates from the means of templates and languages.

    Raises:
        UsageError: where nothing varies, or the metric is no mean over answers.
    """
    with suppress(TooFewCellsError):
        table = variance_components(frame, metric, InferenceSettings())
        if table.chance is not None or table.is_balanced:
            return power.assumptions_of(table, f"taken from {source}")
    answers = answer_scores(frame, metric, "discard")
    freedom = answers.height - answers.select(pl.struct(_KIND).n_unique()).item()
    cells = answers.group_by(TEMPLATE, "language").agg(pl.col("score").mean(), pl.len()).sort(TEMPLATE, "language")
    if freedom < LEAST_FREEDOM or cells[TEMPLATE].n_unique() < 2:
        said = f"{power.DEFAULTS.source.split(';')[0]}; {source} has too few answers per template"
        return power.DEFAULTS.model_copy(update={"source": said})
    gaps = answers.select((pl.col("score") - pl.col("score").mean().over(_KIND)) ** 2)
    answer = float(gaps["score"].sum()) / freedom
    codes: dict[Term, Codes] = {("template",): _numbers(cells[TEMPLATE])}
    if cells["language"].n_unique() > 1:
        codes |= {("language",): _numbers(cells["language"]), ("template", "language"): np.arange(cells.height)}
    found = estimate_components(Cells(cells["score"].to_numpy(), codes, answer, cells["len"].to_numpy().astype(float)))
    update = {
        "template": found[("template",)][0] ** 0.5,
        "template_language": found.get(("template", "language"), (0.0,))[0] ** 0.5,
        "answer": answer**0.5,
        "source": f"taken from {source}: template, template × language, one answer; assumed: prompt variants",
    }
    return power.DEFAULTS.model_copy(update=update)


_KIND = (TEMPLATE, "language", "condition", "polarity", "alignment")


def _numbers(column: pl.Series) -> Codes:
    return np.unique(column.cast(pl.String).to_numpy(), return_inverse=True)[1].reshape(-1).astype(np.int64)


def question_share(frame: pl.DataFrame, metric: Metric) -> float | None:
    """The share of the variance of one answer due to its question; None where no question has two answers."""
    gap = pl.col("score") - pl.col("score").mean().over(_KIND)
    answers = answer_scores(frame, metric, "discard").with_columns(gap=gap)
    return pooled_share(answers.select(pl.struct(TEMPLATE, "language", QUESTION).alias("question"), "gap"))


def pooled_share(answers: pl.DataFrame) -> float | None:
    """The share of the variance of `gap` between values of `question`: one-way analysis of variance, uneven groups."""
    groups = answers.group_by("question").agg(pl.len().cast(pl.Float64), pl.col("gap").sum())
    sizes, totals = groups["len"].to_numpy(), groups["gap"].to_numpy()
    n, number = float(answers.height), groups.height
    if n <= number or number < 2:
        return None
    between = float((totals**2 / sizes).sum())
    chance = (float((answers["gap"] ** 2).sum()) - between) / (n - number)
    question = max((between / (number - 1) - chance) / (n - float((sizes**2).sum()) / n) * (number - 1), 0.0)
    return question / (question + chance) if question + chance > 0 else None
