"""Matches imported answers to instances, and finds the order in which the options were shown.

The order is taken from the messages, which have the options as the model saw them. The log's own list of options is
used only if the prompt does not show them all; without both, an answer can't name an option by its label.

There are no guesses: if several instances have the same texts, ids in the log must distinguish them. Answers are
distributed in turn only over instances that differ in nothing but their ids.
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
"""Label style of labels that are not in LABEL_STYLES."""


@dataclass(frozen=True)
class Match:
    """The instance of an answer, as it was shown."""

    instance: Instance
    option_order: tuple[int, ...]
    labels: tuple[str, ...]
    label_style: str
    unknown_text: str | None = None
    """Text of the unknown option, if it differs from the instance's."""
    shown: int = 0
    """Number of characters of the prompt that show its options."""


class Matcher:
    """Matches answers to the instances of benchmarks."""

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
        """The instance of a known key."""
        return self._by_key[key].instance

    def find(self, answer: ImportedAnswer) -> Match | SkippedRow:
        """The instance of an answer, or the reason why there is none."""
        sent = _searched_texts(answer)
        detail = plain(answer.question or (sent[-1] if answer.text else sent[0] if sent else answer.instance or ""))
        detail = detail if len(detail) <= 120 else f"…{detail[-120:]}"
        candidates = self._candidates(answer, sent)
        if not candidates:
            return SkippedRow("unmatched_question", detail)
        possible = [match for known in candidates if (match := _match(known, answer, sent)) is not None]
        possible = [match for match in possible if match.unknown_text is None] or possible
        if not possible:
            return SkippedRow("options_mismatch", detail)
        # prefer the longest options in the prompt, then most ids in common, then the instance used least
        best = _best(possible, [match.shown for match in possible])
        if len(best) > 1:
            best = _best(best, [len(_ids(match.instance) & answer.hints) for match in best])
            if len({_scored_facts(match.instance) for match in best}) > 1:
                return SkippedRow("ambiguous_match", ", ".join(sorted(match.instance.key for match in possible)[:3]))
        chosen = min(best, key=lambda match: self._used[match.instance.key])
        texts = {plain(text).casefold() for text in options_in_order(chosen.instance, range(3), chosen.unknown_text)}
        if chosen.instance.condition == "disambiguated" and len(texts) < 3:
            return SkippedRow("duplicate_options", chosen.instance.key)
        self._used[chosen.instance.key] += 1
        return chosen

    def _candidates(self, answer: ImportedAnswer, sent: Sequence[str]) -> list[IndexedInstance]:
        """The instances with the answer's context and question, with any options."""
        if (name := answer.instance) is not None:
            named = [self._by_key[name]] if name in self._by_key else self._by_id.get(name, [])
            # an instance named in the log must have the question in the log, if there is one
            texts = [answer.question] if answer.question is not None else sent
            if found := [known for known in named if not texts or any(known.question in plain(text) for text in texts)]:
                return found
        if answer.context is not None and answer.question is not None:
            return self._index.with_texts(answer.context, answer.question)
        return next((found for text in sent if (found := self._index.found_in(text))), [])


def _best(matches: Sequence[Match], sizes: Sequence[int]) -> list[Match]:
    return [match for match, size in zip(matches, sizes, strict=True) if size == max(sizes)]


def _searched_texts(answer: ImportedAnswer) -> list[str]:
    """The texts that may contain the question, the most likely first."""
    turns = [turn.content for turn in answer.messages]
    whole = ["\n".join(turns)] if len(turns) > 1 else []
    return [*turns[-1:], *whole, *([answer.text] if answer.text else [])]


def _ids(instance: Instance) -> frozenset[str]:
    """Ids and similar values by which a log may name an instance."""
    named = (instance.instance_id, instance.template_id, instance.category, instance.key, instance.parallel_id)
    return hints(*named, instance.metadata)


def _scored_facts(instance: Instance) -> str:
    """All facts that scores depend on, as text; equal if instances differ only in their ids."""
    options = sorted((option.role or "", option.text) for option in instance.options)
    ids = {"instance_id", "parallel_id", "metadata", "data_issues", "options", "gold_index", "context", "question"}
    facts = instance.model_dump(exclude=ids)
    return f"{sorted(facts.items())} {options} {instance.options[instance.gold_index or 0].text}"


def _match(known: IndexedInstance, answer: ImportedAnswer, sent: Sequence[str]) -> Match | None:
    """The instance as shown, if its options were shown or listed; the unknown text may differ."""
    instance, texts, reworded = known.instance, list(known.options), None
    remaining = {index: text.casefold() for index, text in enumerate(texts)}
    listed: list[int] = []
    for option in answer.options:
        plain_text = plain(option).casefold()
        index = next((index for index, text in remaining.items() if text == plain_text), None)
        if index is None:
            index, reworded = instance.unknown_index, option
        if remaining.pop(index, None) is None:
            return None
        listed.append(index)
    if listed and remaining:
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
        # without messages, letters are assumed as labels; a recorded prompt without options has no labels
        labels = list(LABEL_STYLES["A"])
    own = tuple(labels) if all(labels) and len(set(labels)) == len(order) else ()
    styles: dict[tuple[str, ...], str] = {style: name for name, style in LABEL_STYLES.items()}
    return Match(
        instance=instance,
        option_order=tuple(order),
        labels=own or tuple(texts[index] for index in order),
        label_style=styles.get(own, OTHER_LABELS) if own else UNLABELLED,
        unknown_text=reworded,
        shown=sum(option.end - option.start for option in shown),
    )


def _shown(known: IndexedInstance, texts: Sequence[str], sent: Sequence[str]) -> tuple[OptionSpan, ...]:
    """The options after the last question or context in the texts; empty unless all are shown."""
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
    """The method and the score of each answer; None if they are not options or labels."""
    options = match.instance.options
    people = {plain(option.text).casefold(): index for index, option in enumerate(options) if option.role != "unknown"}
    places = {label.casefold(): place for place, label in enumerate(match.labels)}
    texts = [plain(answer.text).casefold() for answer in given]
    if set(texts) == set(places) and not set(texts) & set(people):
        method: Method = "label-loglikelihood"
        indexes = [match.option_order[places[text]] for text in texts]
    elif set(people) < set(texts):  # both people, and the unknown option with any text
        method, indexes = "loglikelihood", [people.get(text, match.instance.unknown_index) for text in texts]
    else:
        return None
    return method, tuple(
        ContinuationScore.of(Continuation(option=index, text=text), logprob, None, unconditional_logprob)
        for (text, logprob, unconditional_logprob), index in zip(given, indexes, strict=True)
    )
