"""Finds the instance that a foreign answer is about, and the order in which its options were shown.

The messages sent come first, because there the options stand as the model saw them. A log's own list of options is
believed only where the prompt does not show them all; where nothing showed them, no answer can name one by its label.

An answer is never given to an instance on a guess: where several have the same texts, ids and the like must tell them
apart. Only instances that differ in nothing but their ids take answers in turn.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mbbq_gen.benchmarks.recognition import IndexedInstance, OptionSpan, QuestionIndex, plain, show_options
from mbbq_gen.core.option_display import LABEL_STYLES
from mbbq_gen.core.records import Continuation, ContinuationScore, Instance, Method
from mbbq_gen.interchange.importers.base import ImportedAnswer, ImportedLoglikelihood, SkippedRow
from mbbq_gen.prompts.render import UNLABELLED

OTHER_LABELS = "other"
"""Label style of labels that are none of ours."""


@dataclass(frozen=True)
class Match:
    """The instance that an answer is about, as it was shown."""

    instance: Instance
    option_order: tuple[int, ...]
    labels: tuple[str, ...]
    label_style: str
    unknown_text: str | None = None
    """The unknown option as shown, where it was worded otherwise than in the instance."""


@dataclass(frozen=True)
class _Candidate:
    """An instance that may be it."""

    instance: Instance
    texts: tuple[str, ...]
    """Its options as plain text, in the instance's order; the unknown one as the log words it."""
    shown: tuple[OptionSpan, ...] = ()
    """Where the prompt shows them; none where it does not show them all."""
    reworded: str | None = None


class Matcher:
    """Finds instances of the benchmarks at hand."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._index = QuestionIndex(instances)
        self._by_key = {known.key: known for known in self._index}
        self._by_id: dict[str, list[IndexedInstance]] = defaultdict(list)
        for known in self._index:
            self._by_id[known.key.split("/", 3)[3]].append(known)
        self._used: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._by_key)

    def instance(self, key: str) -> Instance:
        """The instance of a key, which must be known."""
        return self._by_key[key].instance

    def find(self, answer: ImportedAnswer) -> Match | SkippedRow:
        """The instance that an answer is about, or why none is known."""
        known = self._known(answer)
        if not known:
            return SkippedRow("unmatched_question", answer.place, _said(answer))
        candidates = [found for entry in known for found in _as_candidates(entry, answer)]
        candidates = [candidate for candidate in candidates if candidate.reworded is None] or candidates
        if not candidates:
            return SkippedRow("options_mismatch", answer.place, _said(answer))
        covered = [sum(option.end - option.start for option in candidate.shown) for candidate in candidates]
        largest = [one for one, size in zip(candidates, covered, strict=True) if size == max(covered)]
        chosen = self._choose(largest, answer)
        if chosen is None:
            keys = ", ".join(sorted(candidate.instance.key for candidate in candidates)[:3])
            return SkippedRow("ambiguous_match", answer.place, keys)
        if chosen.instance.condition == "disambiguated" and len({text.casefold() for text in chosen.texts}) < 3:
            return SkippedRow("duplicate_options", answer.place, chosen.instance.key)
        self._used[chosen.instance.key] += 1
        # The instance with the order and the labels in which it was shown.
        if chosen.shown:
            order = tuple(option.index for option in chosen.shown)
            labels = tuple(option.label for option in chosen.shown if option.label is not None)
            if len(labels) != len(order):
                labels = _listed_labels(chosen, answer, order)
        elif answer.options:
            order = _listed_order(chosen, answer)
            # A prompt that is known and shows no options leaves nothing that a letter could mean.
            default = LABEL_STYLES["A"] if not answer.messages else ()
            labels = answer.labels if len(answer.labels) == len(order) else default
        else:
            order, labels = tuple(range(len(chosen.texts))), ()
        own = labels if labels and len(set(labels)) == len(order) else ()
        styles: dict[tuple[str, ...], str] = {known: name for name, known in LABEL_STYLES.items()}
        return Match(
            instance=chosen.instance,
            option_order=order,
            labels=own or tuple(chosen.texts[index] for index in order),
            label_style=styles.get(own, OTHER_LABELS) if own else UNLABELLED,
            unknown_text=chosen.reworded,
        )

    def _known(self, answer: ImportedAnswer) -> list[IndexedInstance]:
        """The instances with the answer's context and question, whatever their options."""
        if (name := answer.instance) is not None:
            named = [self._by_key[name]] if name in self._by_key else self._by_id.get(name, [])
            if allowed := [known for known in named if _may_ask(known, answer)]:
                return allowed
        if answer.context is not None and answer.question is not None:
            return self._index.with_texts(answer.context, answer.question)
        for text in _texts(answer):
            if found := self._index.found_in(text):
                return found
        return []

    # --- which of them it is --------------------------------------------------------------------------------------

    def _choose(self, candidates: Sequence[_Candidate], answer: ImportedAnswer) -> _Candidate | None:
        """The one that it is: the only one, the one that the log's ids speak for, or of equal ones the next in turn."""
        if len(candidates) == 1:
            return candidates[0]
        agreeing = [_agreement(candidate.instance, answer.hints) for candidate in candidates]
        most = max(agreeing)
        best = [candidate for candidate, count in zip(candidates, agreeing, strict=True) if count == most]
        if len(best) > 1 and len({_essence(candidate.instance) for candidate in best}) > 1:
            return None
        return min(best, key=lambda candidate: self._used[candidate.instance.key])


def _said(answer: ImportedAnswer) -> str:
    """The beginning of the question, for a message."""
    text = answer.question or answer.text or (answer.messages[-1].content if answer.messages else answer.instance or "")
    shown = plain(text)[-120:]
    return shown if len(plain(text)) <= 120 else f"…{shown}"


def _texts(answer: ImportedAnswer) -> list[str]:
    """The texts in which the question may stand, the likeliest first."""
    turns = answer.messages
    texts = [turns[-1].content] if turns else []
    if len(turns) > 1:
        texts.append("\n".join(turn.content for turn in turns))
    return [*texts, *([answer.text] if answer.text else [])]


def _may_ask(known: IndexedInstance, answer: ImportedAnswer) -> bool:
    """Whether an instance that the log names is the one whose question the log has, where it has any."""
    texts = [answer.question] if answer.question is not None else _texts(answer)
    return not texts or any(known.question in plain(text) for text in texts)


def _as_candidates(known: IndexedInstance, answer: ImportedAnswer) -> list[_Candidate]:
    """The instance as a candidate, if the options that were shown or listed are its own; the unknown one may be worded
    otherwise."""
    instance = known.instance
    reworded = None
    if answer.options:
        fits, reworded = _compare_options(instance, known.options, answer.options)
        if not fits:
            return []
    texts = list(known.options)
    if reworded is not None:
        texts[instance.unknown_index] = plain(reworded)
    shown = _shown(texts, known, answer)
    if not shown and not answer.options and answer.instance is None:
        return []
    return [_Candidate(instance, tuple(texts), shown, reworded)]


def _compare_options(instance: Instance, known: Sequence[str], listed: Sequence[str]) -> tuple[bool, str | None]:
    """Whether listed options are those of an instance, and how the unknown one is worded if not as there."""
    folded = [plain(text).casefold() for text in listed]
    wanted = [text.casefold() for text in known]
    if len(folded) != len(wanted):
        return False, None
    if sorted(folded) == sorted(wanted):
        return True, None
    people = [text for index, text in enumerate(wanted) if index != instance.unknown_index]
    left = list(range(len(folded)))
    for person in people:
        place = next((place for place in left if folded[place] == person), None)
        if place is None:
            return False, None
        left.remove(place)
    return True, listed[left[0]]


def _shown(texts: Sequence[str], known: IndexedInstance, answer: ImportedAnswer) -> tuple[OptionSpan, ...]:
    """The options as what was sent shows them, after its last question."""
    for text in _texts(answer)[: 2 if len(answer.messages) > 1 else 1] if answer.messages else ():
        whole = plain(text)
        start = whole.rfind(known.question)
        shown = show_options(whole[start + len(known.question) :] if start >= 0 else whole, texts)
        if not shown and start >= 0:
            _, context, after = whole.rpartition(plain(known.instance.context))
            shown = show_options(after if context else "", texts)
        if shown:
            return shown
    return ()


def _agreement(instance: Instance, hints: frozenset[str]) -> int:
    """How many of the log's ids and the like are the instance's own."""
    own = {instance.instance_id, instance.template_id, instance.category, instance.key, instance.parallel_id or ""}
    waiting = [instance.metadata]
    while waiting:
        for value in waiting.pop().values():
            if isinstance(value, dict):
                waiting.append(value)
            elif isinstance(value, str | int) and not isinstance(value, bool):
                own.add(str(value))
    return len(own & hints)


def _essence(instance: Instance) -> str:
    """All that counts for a score, as text: what two instances share that differ in nothing but their ids."""
    options = sorted((option.role or "", option.text) for option in instance.options)
    ids = {"instance_id", "parallel_id", "metadata", "data_issues", "options", "gold_index", "context", "question"}
    facts = instance.model_dump(exclude=ids)
    return f"{sorted(facts.items())} {options} {instance.options[instance.gold_index or 0].text}"


# --- how it was shown ------------------------------------------------------------------------------------------------


def _listed_order(candidate: _Candidate, answer: ImportedAnswer) -> tuple[int, ...]:
    """The instance's options in the order of the log's list."""
    left = dict(enumerate(text.casefold() for text in candidate.texts))
    order = []
    for listed in answer.options:
        wanted = plain(listed).casefold()
        index = next(index for index, text in left.items() if text == wanted)
        del left[index]
        order.append(index)
    return tuple(order)


def _listed_labels(candidate: _Candidate, answer: ImportedAnswer, order: Sequence[int]) -> tuple[str, ...]:
    """The log's own labels of its list, put in the order of what was shown; none where it has none."""
    if not answer.options or len(answer.labels) != len(order):
        return ()
    label_of = dict(zip(_listed_order(candidate, answer), answer.labels, strict=True))
    return tuple(label_of[index] for index in order)


def option_scores(
    given: Sequence[ImportedLoglikelihood], match: Match
) -> tuple[Method, tuple[ContinuationScore, ...]] | None:
    """The method and the score of each answer; None where they are not those of the question."""
    options = match.instance.options
    people = {plain(option.text).casefold(): index for index, option in enumerate(options) if option.role != "unknown"}
    places = {label.casefold(): place for place, label in enumerate(match.labels)}
    texts = [plain(one.text).casefold() for one in given]
    if set(texts) == set(places) and not set(texts) & set(people):
        return "label-loglikelihood", tuple(
            _score(one, match.option_order[places[text]]) for one, text in zip(given, texts, strict=True)
        )
    if not set(people) < set(texts):  # both people, and something that says unknown
        return None
    unknown = match.instance.unknown_index
    return "loglikelihood", tuple(
        _score(one, people.get(text, unknown)) for one, text in zip(given, texts, strict=True)
    )


def _score(one: ImportedLoglikelihood, option: int) -> ContinuationScore:
    return ContinuationScore.of(
        Continuation(option=option, text=one.text), one.logprob, None, one.unconditional_logprob
    )
