"""Chooses the requests of each round of an adaptive run, balanced over templates, conditions, variants and orders.

In a round every template of a stratum (benchmark × split × language × category) that still counts adds answers, one
after another, up to the same number. Each answer is one instance with one prompt variant and one option order: of the
condition and polarity that the template has least of, then of the variant, the order and the instance; ties go to what
the language has least of, then to the seed and the parallel id, so that languages and splits share the choice.

A round is stored (table `rounds`) before its requests are sent; after a `kill -9` the run continues with it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import Alignment, Condition, Polarity
from mbbq_gen.prompts.sampling import KINDS
from mbbq_gen.scoring.metrics import Metric, kind_of, needed_kinds
from mbbq_gen.storage.ledgers import candidate_rows
from mbbq_gen.storage.store import RunStore

FIRST: Final = 2
"""Answers of each kind that every template gives in the first round."""
GROWTH: Final = 1.2
"""From round to round, of the answers in all: small steps, so that a run stops soon after it has enough."""
BATCH_GROWTH: Final = 2**0.5
"""The same where a round is a batch, for which a service may take a day."""

Stratum = tuple[str, str, str, str]
"""Benchmark, split, language, category."""
Kind = tuple[Condition, Polarity, Alignment | None]


@dataclass(frozen=True, slots=True)
class CandidateRequest:
    """A possible request: a question in a prompt variant and an order."""

    request_key: str
    stratum: Stratum
    template: str
    kind: Kind
    question: str
    prompt_variant: str
    """With its labels, and how much the model is to think."""
    order: str
    taken: int
    """The round that took it; 0: none."""


@dataclass
class _Given:
    """Number of answers of each kind, of one template or of a language."""

    kinds: Counter[Kind] = field(default_factory=Counter)
    conditions: Counter[Condition] = field(default_factory=Counter)
    prompt_variants: Counter[str] = field(default_factory=Counter)
    orders: Counter[str] = field(default_factory=Counter)
    crossed: Counter[tuple[object, ...]] = field(default_factory=Counter)
    questions: Counter[str] = field(default_factory=Counter)

    def add(self, ask: CandidateRequest) -> None:
        self.kinds[ask.kind] += 1
        self.conditions[ask.kind[0]] += 1
        self.prompt_variants[ask.prompt_variant] += 1
        self.orders[ask.order] += 1
        self.crossed[ask.kind, ask.prompt_variant] += 1
        self.crossed[ask.kind, ask.order] += 1
        self.questions[ask.question] += 1


@dataclass
class _Deck:
    """What a template has left, and what it has given."""

    left: dict[Kind, dict[str, list[CandidateRequest]]] = field(default_factory=dict)
    """Kind → prompt variant → requests, in the order that settles ties."""
    given: _Given = field(default_factory=_Given)

    @property
    def count(self) -> int:
        return sum(self.given.kinds.values())

    def put(self, ask: CandidateRequest) -> None:
        self.left.setdefault(ask.kind, {}).setdefault(ask.prompt_variant, []).append(ask)

    def take(self, overall: _Given) -> CandidateRequest | None:
        """The next request; None where nothing is left."""
        if not self.left:
            return None
        own = self.given
        kind = min(self.left, key=lambda each: self._need(each, overall))
        variants = self.left[kind]
        variant = min(
            variants,
            key=lambda each: (own.crossed[kind, each], own.prompt_variants[each], overall.crossed[kind, each], each),
        )
        requests = variants[variant]

        def rank(place: int) -> tuple[int, ...]:
            question, order = requests[place].question, requests[place].order
            orders = own.crossed[kind, order], own.orders[order], overall.crossed[kind, order]
            return (own.questions[question], *orders, place)

        found = requests.pop(min(range(len(requests)), key=rank))
        if not requests:
            del variants[variant]
        if not variants:
            del self.left[kind]
        own.add(found)
        overall.add(found)
        return found

    def _need(self, kind: Kind, overall: _Given) -> tuple[int, ...]:
        own = self.given
        rank = KINDS.index(kind) if kind in KINDS else len(KINDS)
        return own.conditions[kind[0]], own.kinds[kind], overall.conditions[kind[0]], overall.kinds[kind], rank


def round_sizes(kinds: int, growth: float = GROWTH) -> Iterator[int]:
    """Answers that a template has given after each round, where questions are of so many kinds; without end."""
    each = FIRST
    while True:
        yield each * kinds
        each = max(each + 1, round(each * growth))


class SamplingRounds:
    """The rounds of a run: what they have taken, and what they take next."""

    def __init__(self, requests: Iterable[CandidateRequest], seed: int, growth: float = GROWTH) -> None:
        self._growth = growth
        self._decks: dict[Stratum, dict[str, _Deck]] = defaultdict(lambda: defaultdict(_Deck))
        self._overall: dict[Stratum, _Given] = defaultdict(_Given)
        self._kinds: set[Kind] = set()
        self._offered: Counter[tuple[Stratum, str]] = Counter()
        self.last = 0
        """The number of the last round; 0: none yet."""
        found = sorted(requests, key=lambda ask: (stable_number(seed, ask.stratum[0], ask.question), ask.question))
        for ask in found:
            deck = self._decks[ask.stratum][ask.template]
            self._offered[ask.stratum, ask.template] += 1
            self._kinds.add(ask.kind)
            self.last = max(self.last, ask.taken)
            if ask.taken:
                deck.given.add(ask)
                self._language(ask.stratum).add(ask)
            else:
                deck.put(ask)
        for decks in self._decks.values():
            ranked = sorted(decks, key=lambda template: stable_number(seed, template))
            for template in ranked:  # in an order of their own: no category's first template comes first in all
                decks[template] = decks.pop(template)

    @property
    def strata(self) -> list[Stratum]:
        """All of them, sorted."""
        return sorted(self._decks)

    def offered(self, chosen: Callable[[Stratum], bool]) -> Counter[str]:
        """Template (benchmark / category / id) → the answers that it can give in some strata."""
        found: Counter[str] = Counter()
        for (stratum, template), count in self._offered.items():
            if chosen(stratum):
                found[" / ".join((stratum[0], stratum[3], template))] += count
        return found

    def reached(self, stratum: Stratum) -> int:
        """Answers that a template of a stratum has given at most."""
        return max(deck.count for deck in self._decks[stratum].values())

    def is_used_up(self, stratum: Stratum) -> bool:
        """Whether everything of a stratum was taken."""
        return not any(deck.left for deck in self._decks[stratum].values())

    def next_round(self, strata: Sequence[Stratum], answers: int | None = None) -> list[CandidateRequest]:
        """Takes the next round of some strata: up to so many answers a template, or as the rounds grow.

        Empty where nothing is left.
        """
        self.last += 1
        taken: list[CandidateRequest] = []
        targets = {stratum: self._target(stratum, answers) for stratum in strata}
        for stratum in sorted(targets):
            decks = self._decks[stratum].values()
            for _ in range(targets[stratum]):
                short = [deck for deck in decks if deck.left and deck.count < targets[stratum]]
                if not short:
                    break
                taken += [found for deck in short if (found := deck.take(self._language(stratum)))]
        return taken

    def _target(self, stratum: Stratum, answers: int | None) -> int:
        """Answers that each template of a stratum has given after its next round."""
        if answers is not None:
            return answers
        now = self.reached(stratum)
        return next(size for size in round_sizes(len(self._kinds), self._growth) if size > now)

    def _language(self, stratum: Stratum) -> _Given:
        return self._overall[*stratum[:3], ""]


def candidate_requests(store: RunStore, metrics: Iterable[Metric]) -> Iterator[CandidateRequest]:
    """The planned requests that count for one of the metrics, and those that a round has taken; each once."""
    kinds, seen = needed_kinds(metrics), set[str]()
    for row in candidate_rows(store):
        is_wanted = row.round or kind_of(row.condition, row.alignment, bool(row.has_single_target)) in kinds
        if is_wanted and row.request_key not in seen:
            seen.add(row.request_key)
            settings = (row.variant, row.label_style, row.reasoning_effort)
            yield CandidateRequest(
                row.request_key,
                (row.benchmark, row.split, row.language, row.category),
                row.template_id,
                (row.condition, row.polarity, row.alignment),
                row.twin,
                " ".join(setting for setting in settings if setting is not None),
                row.roles,
                row.round,
            )
