"""The design that reaches a width for the least money, or the narrowest that an amount buys: a decision study.

Generalizability theory (Brennan 2001, "Generalizability Theory", ch. 4) takes a score apart into components of
variance and says what each would be under another design. A design asks, in every language and split,

    N templates × n answers of each: m questions in k wordings and o orders each, n = m · k · o; a template that has
    fewer questions gives its n answers in other wordings and orders, as far as there are some

and the questions take K ≥ k wordings in turns. The variance of

    one score                           (σ²_T + σ²_TL) / N + σ²_W / K + σ²_TW / (N · min(K, m·k)) + answers
    a difference between two languages  2 · (σ²_TL / N + σ²_LW / K + answers)
    answers                             mean over templates of (σ²_Q / its questions + σ²_A / its answers) / N

with σ²_Q of a question and σ²_A of one answer to it; templates count alike. The terms of σ²_W and σ²_LW stand there
only where wordings are `random`; held `fixed`, as intervals and tests hold them by default, they are left out. A width
is that of a 95 % interval, 2 · t(N − 1) · √variance, about templates like those asked; where wordings are random,
about wordings like those too: their part has t with K − 1 degrees of freedom, and the squares of the two are added.
`within` is the width of the interval about what this very benchmark would say if everything in it were asked: every
component is multiplied by the share of its levels that is not asked (the finite-population correction; Cochran 1977,
§2.6), and is 0 where all is. Every design of the grid is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.errors import UsageError
from mbbq_gen.records import Record
from mbbq_gen.scoring.reasons import MIN_TEMPLATES, TOO_FEW
from mbbq_gen.scoring.wordings import MIN_WORDINGS, TOO_FEW_WORDINGS, Wordings
from mbbq_gen.statistics.power import DEFAULTS, VarianceAssumptions

if TYPE_CHECKING:
    from mbbq_gen.scoring.cells import Array
    from mbbq_gen.scoring.metrics import Metric

Goal = Literal["score", "difference between languages"]
GOALS: Final[tuple[Goal, ...]] = ("score", "difference between languages")
QUESTION_SHARE: Final = 0.5
"""Of the variance of one answer: what its question makes, if no run tells. An assumption."""
EVERY: Final = 48
"""Numbers of questions up to which each is looked at; above, every step is a twentieth."""
ORDERS: Final = (1, 2, 3, 6)


class Components(Record):
    """Standard deviations that designs are judged by, in units of the score."""

    assumptions: VarianceAssumptions
    question_share: float
    """Of the variance of one answer, what its question makes: asking it again does not lessen that part."""
    question_source: str
    """Where the share comes from."""


_SHARES: Final = VarianceAssumptions(
    **{name: sd / 2 for name, sd in DEFAULTS.model_dump(exclude={"answer", "source"}).items()},
    answer=0.5,
    source="assumed, of a share near one half; give --pilot RUN to take those of a run",
)


def assumed_components(metric: Metric) -> Components:
    """What is assumed of a metric where no run tells: of biases from −1 to 1, or of shares from 0 to 1."""
    return Components(
        assumptions=DEFAULTS if metric.low < 0 else _SHARES,
        question_share=QUESTION_SHARE,
        question_source="assumed; give --pilot RUN to measure it",
    )


@dataclass(frozen=True)
class Offer:
    """What can be asked, in each language and split."""

    stock: tuple[int, ...]
    """Questions of each template that count for the metric."""
    wordings: int
    orders: int
    """Option orders of the policy: 1, 3 or 6."""
    cells: int
    """Languages × splits."""


class Design(Record):
    """One way to spread questions, and what it reaches."""

    templates: int
    questions: int
    """Of each template; all of a template's where it has fewer."""
    wordings: int
    """That the questions take in turns."""
    wordings_each: int
    """Of every question."""
    orders_each: int
    """Of every question in every wording."""
    answers: int
    """Of a template in each language and split, in more wordings where questions are too few, or as many as it can
    give."""
    requests: int
    cost: float | None
    """US dollars; None where no price is known."""
    batch_cost: float | None
    """The same by batch; None where that has no price."""
    width: float
    """Of the 95 % interval that `score` shows, with `--wordings` as given here."""
    within: float
    """Of the interval about what this benchmark would say if all of it were asked."""


class Price(Record):
    """What one request costs on average, over languages and wordings."""

    online: float | None
    batch: float | None


def question_counts(most: int) -> tuple[int, ...]:
    """The numbers of questions that are looked at, up to the largest template's."""
    counts = list(range(1, min(most, EVERY) + 1))
    while counts[-1] < most:
        counts.append(min(most, counts[-1] + max(1, counts[-1] // 20)))
    return tuple(counts)


@dataclass(frozen=True)
class Study:
    """All designs of a grid."""

    goal: Goal
    components: Components
    offer: Offer
    price: Price
    confidence: float = 0.95
    speaks_of: Wordings = "fixed"
    """The wordings asked, or wordings like them."""

    def cheapest(self, width: float) -> Design | None:
        """The design of the fewest requests whose interval is no wider; None where none is."""
        found = [design for block in self._blocks() if (design := block.cheapest(width))]
        return self._or_everything(min(found, key=lambda design: (design.requests, design.width), default=None))

    def narrowest(self, requests: float) -> Design | None:
        """The design of the narrowest interval with no more requests; None where there is none."""
        found = [design for block in self._blocks() if (design := block.narrowest(requests))]
        return self._or_everything(min(found, key=lambda design: (design.width, design.requests), default=None))

    def _or_everything(self, found: Design | None) -> Design | None:
        """The design, told as all of it where it is."""
        everything = self.everything()
        return everything if found is not None and found.requests == everything.requests else found

    def as_run(self, *, width: float | None = None, requests: float | None = None) -> Design | None:
        """The best that `run --until-answers` can ask: all templates, wordings in turns, questions before repeats."""
        block = _Block(self, self.offer.wordings, 1, 1, all_templates=True)
        return block.cheapest(width) if width is not None else block.narrowest(requests or 0.0)

    def at(self, templates: int, questions: int, wordings: int, each: int, orders: int = 1) -> Design:
        """What one design reaches: `each` of the wordings of every question."""
        return _Block(self, wordings, each, orders).design(templates, questions)

    def everything(self) -> Design:
        """All questions in all wordings and orders: no money buys a narrower interval."""
        offer = self.offer
        return self.at(len(offer.stock), max(offer.stock), offer.wordings, offer.wordings, offer.orders)

    def next_best(self, best: Design, *, width: float | None = None, requests: float | None = None) -> list[Design]:
        """The best designs that differ from it in wordings, wordings of a question or orders, best first.

        Those that ask everything are no other designs than it.
        """
        found: list[Design] = []
        all_of_it = self.everything().requests
        for block in self._blocks():
            if block.shape != (best.wordings, best.wordings_each, best.orders_each):
                other = block.cheapest(width) if width is not None else block.narrowest(requests or 0.0)
                found += [other] if other is not None and other.requests < all_of_it else []
        key = (lambda other: (other.requests, other.width)) if width is not None else (lambda other: (other.width, 0.0))
        return sorted(found, key=key)

    def _blocks(self) -> Iterator[_Block]:
        """The grid, by wordings in all, wordings of a question, and orders."""
        offer = self.offer
        orders = [count for count in ORDERS if count <= offer.orders]
        for wordings, each, order in product(range(1, offer.wordings + 1), range(1, offer.wordings + 1), orders):
            if each <= wordings:
                yield _Block(self, wordings, each, order)


@dataclass(frozen=True)
class _Block:
    """The designs of some wordings and orders: every number of templates and questions."""

    study: Study
    wordings: int
    each: int
    orders: int
    all_templates: bool = False
    """Whether designs that leave templates out are left out."""

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.wordings, self.each, self.orders

    def cheapest(self, width: float) -> Design | None:
        """The fewest requests that reach the width."""
        import numpy as np

        templates, questions = self._grid()
        requests = np.where(self._widths(templates, questions) <= width, self._requests(templates, questions), np.inf)
        return self._at(templates, questions, requests)

    def narrowest(self, requests: float) -> Design | None:
        """The narrowest of so many requests."""
        import numpy as np

        templates, questions = self._grid()
        affordable = self._requests(templates, questions) <= requests
        return self._at(templates, questions, np.where(affordable, self._widths(templates, questions), np.inf))

    def design(self, templates: int, questions: int) -> Design:
        """One design as a record."""
        import numpy as np

        place = np.array([[float(templates)]]), np.array([[float(questions)]])
        requests, price = round(float(self._requests(*place)[0, 0])), self.study.price
        return Design(
            templates=templates,
            questions=min(questions, max(self.study.offer.stock)),
            wordings=self.wordings,
            wordings_each=self.each,
            orders_each=self.orders,
            answers=questions * self.each * self.orders,
            requests=requests,
            cost=None if price.online is None else requests * price.online,
            batch_cost=None if price.batch is None else requests * price.batch,
            width=float(self._widths(*place)[0, 0]),
            within=float(self._widths(*place, within=True)[0, 0]),
        )

    def _at(self, templates: Array, questions: Array, values: Array) -> Design | None:
        """The design of the least finite value."""
        import numpy as np

        row, column = np.unravel_index(int(values.argmin()), values.shape)
        if not np.isfinite(values[row, column]):
            return None
        return self.design(int(templates[row, 0]), int(questions[0, column]))

    def _grid(self) -> tuple[Array, Array]:
        """Templates down, questions across."""
        import numpy as np

        stock = self.study.offer.stock
        fewest = len(stock) if self.all_templates else MIN_TEMPLATES
        templates = np.arange(fewest, len(stock) + 1, dtype=np.float64)[:, None]
        most = -(-max(stock) * self.study.offer.wordings * self.study.offer.orders // (self.each * self.orders))
        return templates, np.array(question_counts(most), dtype=np.float64)[None, :]

    def _taken(self, questions: Array) -> tuple[Array, Array]:
        """Questions and answers that each template gives: both of shape (1, question counts, templates)."""
        import numpy as np

        offer = self.study.offer
        stock = np.array(offer.stock, dtype=np.float64)
        answers = np.minimum(questions[..., None] * self.each * self.orders, stock * offer.wordings * offer.orders)
        return np.minimum(questions[..., None], stock), answers

    def _requests(self, templates: Array, questions: Array) -> Array:
        """Of all languages and splits; which templates are taken is left to chance."""
        _, answers = self._taken(questions)
        found: Array = templates * answers.mean(axis=-1) * self.study.offer.cells
        return found

    def _widths(self, templates: Array, questions: Array, *, within: bool = False) -> Array:
        from scipy import special

        level = 0.5 + self.study.confidence / 2
        squares = special.stdtrit(templates - 1, level) ** 2 * self._variance(templates, questions, within=within)
        if self.study.speaks_of == "random":
            reach = special.stdtrit(self.wordings - 1, level) if self.wordings >= MIN_WORDINGS else float("inf")
            squares = squares + reach**2 * self._variance_of_wordings(within=within)
        width: Array = 2 * squares**0.5
        return width

    def _variance_of_wordings(self, *, within: bool) -> float:
        """What the wordings asked add where they are taken for others."""
        sd, offer = self.study.components.assumptions, self.study.offer
        left = 1 - within * self.wordings / offer.wordings
        one = sd.wording**2 if self.study.goal == "score" else 2 * sd.language_wording**2
        return one / self.wordings * left

    def _variance(self, templates: Array, questions: Array, *, within: bool) -> Array:
        import numpy as np

        study, sd = self.study, self.study.components.assumptions
        (taken, given), stock = self._taken(questions), np.array(study.offer.stock, dtype=np.float64)
        left = 1 - within * templates / len(stock)
        unasked = 1 - within * self.wordings / study.offer.wordings if study.speaks_of == "random" else 0.0
        share, every = study.components.question_share, stock * study.offer.wordings * study.offer.orders
        answer = share / taken * (1 - within * taken / stock) + (1 - share) / given * (1 - within * given / every)
        answers = sd.answer**2 * answer.mean(axis=-1) / templates
        met = np.minimum(self.wordings, questions * self.each)  # wordings that a template meets
        if study.goal == "score":
            variance = (sd.template**2 + sd.template_language**2) / templates * left + answers
            variance = variance + sd.template_wording**2 / (templates * met) * np.maximum(left, unasked)
        else:
            variance = 2 * (sd.template_language**2 / templates * left + answers)
        found: Array = variance
        return found


def check_offer(offer: Offer, speaks_of: Wordings = "fixed") -> None:
    """Refuses what no interval can be made of.

    Raises:
        UsageError: for too few templates, or wordings that are to speak of others.
    """
    if len(offer.stock) < MIN_TEMPLATES:
        raise UsageError(f"{len(offer.stock)} template(s) have questions that count for the metric: {TOO_FEW}")
    if speaks_of == "random" and offer.wordings < MIN_WORDINGS:
        raise UsageError(f"{offer.wordings} wording(s): {TOO_FEW_WORDINGS}; give more with --variants")


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
