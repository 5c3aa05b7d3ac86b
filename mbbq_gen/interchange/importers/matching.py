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
from mbbq_gen.core.option_display import LABEL_STYLES, options_in_order
from mbbq_gen.core.records import Continuation, ContinuationScore, Instance, Method
from mbbq_gen.interchange.importers.base import ImportedAnswer, ImportedLoglikelihood, SkippedRow, hints
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
    shown: int = 0
    """Characters of the prompt that are its options."""


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
        sent = _texts(answer)
        said = plain(answer.question or (sent[-1] if answer.text else sent[0] if sent else answer.instance or ""))
        said = said if len(said) <= 120 else f"…{said[-120:]}"
        known = self._known(answer, sent)
        if not known:
            return SkippedRow("unmatched_question", said)
        possible = [found for entry in known if (found := _match(entry, answer, sent)) is not None]
        possible = [match for match in possible if match.unknown_text is None] or possible
        if not possible:
            return SkippedRow("options_mismatch", said)
        # the one that the prompt shows most of, that the log's ids speak for, or of equal ones the next in turn
        best = _largest(possible, [match.shown for match in possible])
        if len(best) > 1:
            best = _largest(best, [len(_ids(match.instance) & answer.hints) for match in best])
            if len({_essence(match.instance) for match in best}) > 1:
                return SkippedRow("ambiguous_match", ", ".join(sorted(match.instance.key for match in possible)[:3]))
        chosen = min(best, key=lambda match: self._used[match.instance.key])
        texts = {plain(text).casefold() for text in options_in_order(chosen.instance, range(3), chosen.unknown_text)}
        if chosen.instance.condition == "disambiguated" and len(texts) < 3:
            return SkippedRow("duplicate_options", chosen.instance.key)
        self._used[chosen.instance.key] += 1
        return chosen

    def _known(self, answer: ImportedAnswer, sent: Sequence[str]) -> list[IndexedInstance]:
        """The instances with the answer's context and question, whatever their options."""
        if (name := answer.instance) is not None:
            named = [self._by_key[name]] if name in self._by_key else self._by_id.get(name, [])
            # an instance that the log names is believed if its question is the one that the log has, where it has any
            texts = [answer.question] if answer.question is not None else sent
            if found := [one for one in named if not texts or any(one.question in plain(text) for text in texts)]:
                return found
        if answer.context is not None and answer.question is not None:
            return self._index.with_texts(answer.context, answer.question)
        return next((found for text in sent if (found := self._index.found_in(text))), [])


def _largest(matches: Sequence[Match], sizes: Sequence[int]) -> list[Match]:
    return [match for match, size in zip(matches, sizes, strict=True) if size == max(sizes)]


def _texts(answer: ImportedAnswer) -> list[str]:
    """The texts in which the question may stand, the likeliest first."""
    turns = [turn.content for turn in answer.messages]
    whole = ["\n".join(turns)] if len(turns) > 1 else []
    return [*turns[-1:], *whole, *([answer.text] if answer.text else [])]


def _ids(instance: Instance) -> frozenset[str]:
    """Ids and the like by which logs may name an instance."""
    named = (instance.instance_id, instance.template_id, instance.category, instance.key, instance.parallel_id)
    return hints(*named, instance.metadata)


def _essence(instance: Instance) -> str:
    """All that counts for a score, as text: equal for instances that differ in nothing but their ids."""
    options = sorted((option.role or "", option.text) for option in instance.options)
    ids = {"instance_id", "parallel_id", "metadata", "data_issues", "options", "gold_index", "context", "question"}
    facts = instance.model_dump(exclude=ids)
    return f"{sorted(facts.items())} {options} {instance.options[instance.gold_index or 0].text}"


def _match(known: IndexedInstance, answer: ImportedAnswer, sent: Sequence[str]) -> Match | None:
    """The instance as it was shown, if its options were shown or listed; the unknown one may be worded otherwise."""
    instance, texts, reworded = known.instance, list(known.options), None
    left = {index: text.casefold() for index, text in enumerate(texts)}
    listed: list[int] = []
    for option in answer.options:
        said = plain(option).casefold()
        index = next((index for index, text in left.items() if text == said), None)
        if index is None:
            index, reworded = instance.unknown_index, option
        if left.pop(index, None) is None:
            return None
        listed.append(index)
    if listed and left:
        return None
    if reworded is not None:
        texts[instance.unknown_index] = plain(reworded)
    shown = _shown(known, texts, sent[: len(sent) - bool(answer.text)])
    if not shown and not listed and answer.instance is None:
        return None
    order = [option.index for option in shown] or listed or list(range(len(texts)))
    labels = [option.label or "" for option in shown]
    if not all(labels) or not labels:
        label_of = dict(zip(listed, answer.labels, strict=True)) if len(answer.labels) == len(listed) else {}
        labels = [label_of.get(index, "") for index in order]
    if not all(labels) and listed and not answer.messages:
        # a prompt that is known and shows no options leaves nothing that a letter could mean
        labels = list(LABEL_STYLES["A"])
    own = tuple(labels) if all(labels) and len(set(labels)) == len(order) else ()
    styles: dict[tuple[str, ...], str] = {known: name for name, known in LABEL_STYLES.items()}
    return Match(
        instance=instance,
        option_order=tuple(order),
        labels=own or tuple(texts[index] for index in order),
        label_style=styles.get(own, OTHER_LABELS) if own else UNLABELLED,
        unknown_text=reworded,
        shown=sum(option.end - option.start for option in shown),
    )


def _shown(known: IndexedInstance, texts: Sequence[str], sent: Sequence[str]) -> tuple[OptionSpan, ...]:
    """The options after the last question, else after the last context, of what was sent; none unless all are there."""
    for text in map(plain, sent):
        _, found, after = text.rpartition(known.question)
        shown = show_options(after, texts)
        if not shown and found:
            _, found, after = text.rpartition(plain(known.instance.context))
            shown = show_options(after if found else "", texts)
        if shown:
            return shown
    return ()


def option_scores(
    given: Sequence[ImportedLoglikelihood], match: Match
) -> tuple[Method, tuple[ContinuationScore, ...]] | None:
    """The method and the score of each answer; None where they are not those of the question."""
    options = match.instance.options
    people = {plain(option.text).casefold(): index for index, option in enumerate(options) if option.role != "unknown"}
    places = {label.casefold(): place for place, label in enumerate(match.labels)}
    texts = [plain(one.text).casefold() for one in given]
    if set(texts) == set(places) and not set(texts) & set(people):
        method: Method = "label-loglikelihood"
        indexes = [match.option_order[places[text]] for text in texts]
    elif set(people) < set(texts):  # both people, and something that says unknown
        method, indexes = "loglikelihood", [people.get(text, match.instance.unknown_index) for text in texts]
    else:
        return None
    return method, tuple(
        ContinuationScore.of(Continuation(option=index, text=one.text), one.logprob, None, one.unconditional_logprob)
        for one, index in zip(given, indexes, strict=True)
    )
