"""The design that reaches a width for the least money, or the narrowest that an amount buys: a decision study.

Generalizability theory (Brennan 2001, "Generalizability Theory", ch. 4) takes a score apart into components of
variance and says what each would be under another design. A design asks, in every language and split,

    N templates × n answers of each: m questions in k prompt variants and o orders each, n = m · k · o; a template that
    has fewer questions gives its n answers in other prompt variants and orders, as far as there are some

and the questions take K ≥ k prompt variants in turns. The variance is that of `mbbq_gen.analysis.power`, in which a
template meets min(K, m·k) prompt variants and templates count alike: the answers' part is the mean over templates. That
of a random-effects mean is 1 / Σ 1 / u_t over templates, u_t being the variance of one template. A
width is that of a 95 % interval, 2 · t(N − 1) · √variance, about templates like those of the run; where prompt variants
are random, about prompt variants like those too: their part has t with K − 1 degrees of freedom, and the squares of the
two are added. `within` is the width of the interval about what this very benchmark would say if every question
were used: every component is multiplied by the share of its levels that is left out (the finite-population correction;
Cochran 1977, §2.6), and is 0 where all is. Every design of the grid is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, Literal

import numpy as np
import polars as pl
from scipy import special

from mbbq_gen.analysis.power import (
    DEFAULTS,
    QUESTION_SHARE,
    Question,
    VarianceAssumptions,
    answer_variance,
    assumptions_of,
    variance_of,
    variance_of_variants,
)
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
_QUESTIONS: Final[dict[DesignTarget, Question]] = {
    "score": "one score against 0",
    "difference between languages": "two languages",
}
DESIGN_TARGETS: Final = tuple(_QUESTIONS)
EVERY: Final = 48
"""Numbers of questions up to which each is looked at; above, every step is a twentieth."""
ORDERS: Final = (1, 2, 3, 6)


class Components(FrozenModel):
    """Standard deviations that designs are judged by, in units of the score."""

    assumptions: VarianceAssumptions
    question_share: float
    """Of the variance of one answer, what its question makes: asking it again does not lessen that part."""
    question_source: str


_SHARES: Final = VarianceAssumptions(
    **{name: sd / 2 for name, sd in DEFAULTS.model_dump(exclude={"answer", "source"}).items()},
    answer=0.5,
    source="assumed, of a share near one half; give --pilot RUN to take those of a run",
)


def assumed_components(metric: Metric) -> Components:
    """What is assumed of a metric where no run gives them: of biases from −1 to 1, or of shares from 0 to 1."""
    return Components(
        assumptions=DEFAULTS if metric.low < 0 else _SHARES,
        question_share=QUESTION_SHARE,
        question_source="assumed; give --pilot RUN to measure it",
    )


@dataclass(frozen=True)
class DesignSpace:
    """What there is to ask, in each language and split."""

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


class StudyDesign(FrozenModel):
    """One way to spread questions, and what it reaches."""

    templates: int
    questions: int
    """Of each template; all of a template's where it has fewer."""
    prompt_variants: int
    """That the questions take in turns."""
    prompt_variants_each: int
    """Of every question."""
    orders_each: int
    """Of every question in every prompt variant."""
    answers: int
    """Of a template in each language and split, in more prompt variants where questions are too few, or as many as it
    can give."""
    requests: int
    cost: float | None
    """US dollars; None where no price is known."""
    batch_cost: float | None
    """The same by batch; None where that has no price."""
    width: float
    """Of the 95 % interval that `score` shows, with `--prompt-effects` as given here."""
    within: float
    """Of the interval about what this benchmark would say if all its questions were used."""


class Price(FrozenModel):
    """What one request costs on average, over languages and prompt variants."""

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
    """The prompt variants of the run, or prompt variants like them."""
    average: Average = "questions"
    """What the score is the mean over. A design uses templates alike, so that a mean over its questions, by their
    sampling weights, is the plain mean over templates."""

    def cheapest(self, width: float) -> StudyDesign | None:
        """The design of the fewest requests whose interval is no wider; None where none is."""
        return self._best(lambda design: (design.requests, design.width), width=width)

    def narrowest(self, requests: float) -> StudyDesign | None:
        """The design of the narrowest interval with no more requests; None where there is none."""
        return self._best(lambda design: (design.width, design.requests), requests=requests)

    def _best(self, key: Callable[[StudyDesign], tuple[float, float]], **goal: float) -> StudyDesign | None:
        """The best design of all blocks, or `everything` where it asks as much."""
        found = min((design for block in self._blocks() if (design := block.best(**goal))), key=key, default=None)
        everything = self.everything()
        return everything if found is not None and found.requests == everything.requests else found

    def as_run(self, *, width: float | None = None, requests: float | None = None) -> StudyDesign | None:
        """The best that `run --answers-per-template` can ask: all templates, prompt variants in turns, questions before
        repeats."""
        return _Block(self, self.offer.prompt_variants, 1, 1, all_templates=True).best(width=width, requests=requests)

    def at(self, templates: int, questions: int, variants: int, each: int, orders: int = 1) -> StudyDesign:
        """What one design reaches: `each` of the prompt variants of every question."""
        return _Block(self, variants, each, orders).design(templates, questions)

    def everything(self) -> StudyDesign:
        """All questions in all prompt variants and orders: no money buys a narrower interval."""
        offer = self.offer
        return self.at(len(offer.stock), max(offer.stock), offer.prompt_variants, offer.prompt_variants, offer.orders)

    def next_best(
        self, best: StudyDesign, *, width: float | None = None, requests: float | None = None
    ) -> list[StudyDesign]:
        """The best designs that differ from it in prompt variants, prompt variants of a question or orders, best first.

        Those that ask everything are no other designs than it.
        """
        same = (best.prompt_variants, best.prompt_variants_each, best.orders_each)
        others = [block for block in self._blocks() if (block.prompt_variants, block.each, block.orders) != same]
        designs = [other for block in others if (other := block.best(width=width, requests=requests))]
        all_of_it = self.everything().requests
        found = [other for other in designs if other.requests < all_of_it]
        return sorted(found, key=lambda other: (other.width, 0.0) if width is None else (other.requests, other.width))

    def _blocks(self) -> Iterator[_Block]:
        """The grid, by prompt variants in all, prompt variants of a question, and orders."""
        offer = self.offer
        orders = [count for count in ORDERS if count <= offer.orders]
        for variants, each, order in product(
            range(1, offer.prompt_variants + 1), range(1, offer.prompt_variants + 1), orders
        ):
            if each <= variants:
                yield _Block(self, variants, each, order)


@dataclass(frozen=True)
class _Block:
    """The designs of some prompt variants and orders: every number of templates and questions."""

    study: DesignSearch
    prompt_variants: int
    each: int
    orders: int
    all_templates: bool = False
    """Whether designs that leave templates out are left out."""

    def best(self, *, width: float | None = None, requests: float | None = None) -> StudyDesign | None:
        """The fewest requests that reach the width, or the narrowest of so many requests; None where none does."""
        offer, stock = self.study.offer, self.study.offer.stock
        fewest = len(stock) if self.all_templates else MIN_TEMPLATES
        templates = np.arange(fewest, len(stock) + 1, dtype=np.float64)[:, None]
        most = -(-max(stock) * offer.prompt_variants * offer.orders // (self.each * self.orders))
        questions = np.array(question_counts(most), dtype=np.float64)[None, :]
        needed = templates * self._taken(questions)[1].mean(axis=-1) * offer.cells  # which templates is left to chance
        widths = self._widths(templates, questions)
        values = np.where(needed <= (requests or 0.0), widths, np.inf)
        if width is not None:
            values = np.where(widths <= width, needed, np.inf)
        row, column = np.unravel_index(int(values.argmin()), values.shape)
        if not np.isfinite(values[row, column]):
            return None
        return self.design(int(templates[row, 0]), int(questions[0, column]))

    def design(self, templates: int, questions: int) -> StudyDesign:
        """One design as a record."""
        place, price = (np.array([[float(templates)]]), np.array([[float(questions)]])), self.study.price
        requests = round(templates * float(self._taken(place[1])[1].mean()) * self.study.offer.cells)
        return StudyDesign(
            templates=templates,
            questions=min(questions, max(self.study.offer.stock)),
            prompt_variants=self.prompt_variants,
            prompt_variants_each=self.each,
            orders_each=self.orders,
            answers=questions * self.each * self.orders,
            requests=requests,
            cost=None if price.online is None else requests * price.online,
            batch_cost=None if price.batch is None else requests * price.batch,
            width=float(self._widths(*place)[0, 0]),
            within=float(self._widths(*place, within=True)[0, 0]),
        )

    def _taken(self, questions: Array) -> tuple[Array, Array]:
        """Questions and answers that each template gives: both of shape (1, question counts, templates)."""
        offer = self.study.offer
        stock = np.array(offer.stock, dtype=np.float64)
        answers = np.minimum(
            questions[..., None] * self.each * self.orders, stock * offer.prompt_variants * offer.orders
        )
        return np.minimum(questions[..., None], stock), answers

    def _widths(self, templates: Array, questions: Array, *, within: bool = False) -> Array:
        study, offer, sd = self.study, self.study.offer, self.study.components.assumptions
        question, level = _QUESTIONS[study.target], 0.5 + study.confidence / 2
        (taken, given), stock = self._taken(questions), np.array(offer.stock, dtype=np.float64)
        left, left_of_variants = 1 - within * templates / len(stock), 1.0
        if study.speaks_of == "random":
            left_of_variants = 1 - within * self.prompt_variants / offer.prompt_variants
        every = stock * offer.prompt_variants * offer.orders
        left_out = 1 - within * taken / stock, 1 - within * given / every
        answer = answer_variance(sd.answer, study.components.question_share, taken, given, left_out)
        met = np.minimum(self.prompt_variants, questions * self.each)  # prompt variants that a template meets
        unseen = np.maximum(left, left_of_variants) if study.speaks_of == "random" else left
        if study.average == "random-effects":  # templates weighted by the inverse of their variances
            each = variance_of(question, sd, 1.0, met[..., None], answer, (left[..., None], unseen[..., None]))
            variance = np.asarray(1 / (1 / np.maximum(each, _LEAST_VARIANCE)).mean(axis=-1) / templates)
        else:
            variance = variance_of(question, sd, templates, met, answer.mean(axis=-1) / templates, (left, unseen))
        squares = special.stdtrit(templates - 1, level) ** 2 * variance
        if study.speaks_of == "random":
            enough = self.prompt_variants >= MIN_PROMPT_VARIANTS
            reach = special.stdtrit(self.prompt_variants - 1, level) if enough else float("inf")
            squares = squares + reach**2 * variance_of_variants(question, sd, self.prompt_variants) * left_of_variants
        width: Array = 2 * squares**0.5
        return width


_LEAST_VARIANCE: Final = 1e-12


def pooled_share(groups: Sequence[tuple[int, float, float]]) -> float | None:
    """How much of the variance of answers their questions make (one-way analysis of variance, uneven groups).

    `groups`: of each question its number of answers, their sum and their sum of squares, each measured from the mean of
    its template and kind. None where no question has two answers.
    """
    counts = sum(count for count, _, _ in groups)
    number = len(groups)
    if counts <= number or number < 2:
        return None
    between = sum(total**2 / count for count, total, _ in groups)
    whole = sum(squares for _, _, squares in groups)
    chance = (whole - between) / (counts - number)
    size = (counts - sum(count**2 for count, _, _ in groups) / counts) / (number - 1)
    question = max((between / (number - 1) - chance) / size, 0.0)
    return question / (question + chance) if question + chance > 0 else None


LEAST_FREEDOM: Final = 20
"""Fewest degrees of freedom for estimating the variance within a template: answers minus groups."""


def measured_components(frame: pl.DataFrame, metric: Metric, source: str) -> Components:
    """The components of the bias split of a run; what did not vary there keeps the assumed one.

    Raises:
        UsageError: where nothing varies, or the metric is no mean over answers.
    """
    bias = frame.filter(pl.col("split") == "bias")
    share = question_share(bias, metric)
    return Components(
        assumptions=measured_assumptions(bias, metric, source),
        question_share=QUESTION_SHARE if share is None else share,
        question_source="assumed: no question has two answers there" if share is None else f"taken from {source}",
    )


def measured_assumptions(frame: pl.DataFrame, metric: Metric, source: str) -> VarianceAssumptions:
    """The standard deviations that the answers of one split tell; what they don't keeps the assumed one.

    Where hardly any prompt variant was met twice by a template, as in the first rounds of a run, a full table of
    components tells nothing: chance can't be estimated from prompt variants there. Then it is taken within templates,
    languages and kinds of question, a little of the prompt variants with it, and templates from the means of templates
    and languages.

    Raises:
        UsageError: where nothing varies, or the metric is no mean over answers.
    """
    try:
        table = variance_components(frame, metric, InferenceSettings())
    except TooFewCellsError:
        pass
    else:
        if table.chance is not None or table.is_balanced:
            return assumptions_of(table, f"taken from {source}")
    answers = answer_scores(frame, metric, "discard")
    freedom = answers.height - answers.select(pl.struct(_KIND).n_unique()).item()
    cells = answers.group_by(TEMPLATE, "language").agg(pl.col("score").mean(), pl.len()).sort(TEMPLATE, "language")
    if freedom < LEAST_FREEDOM or cells[TEMPLATE].n_unique() < 2:
        said = f"{DEFAULTS.source.split(';')[0]}; {source} has too few answers per template"
        return DEFAULTS.model_copy(update={"source": said})
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
    return DEFAULTS.model_copy(update=update)


_KIND = (TEMPLATE, "language", "condition", "polarity", "alignment")


def _numbers(column: pl.Series) -> Codes:
    return np.unique(column.cast(pl.String).to_numpy(), return_inverse=True)[1].reshape(-1).astype(np.int64)


def question_share(frame: pl.DataFrame, metric: Metric) -> float | None:
    """How much of the variance of one answer its question makes; None if no question was used twice."""
    answers = answer_scores(frame, metric, "discard").with_columns(
        gap=pl.col("score") - pl.col("score").mean().over(_KIND)
    )
    groups = answers.group_by(TEMPLATE, "language", QUESTION).agg(
        pl.len(), pl.col("gap").sum(), (pl.col("gap") ** 2).sum().alias("squares")
    )
    return pooled_share(groups.select("len", "gap", "squares").rows())
