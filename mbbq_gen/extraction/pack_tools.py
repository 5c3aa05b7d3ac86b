"""Checks the extraction pack of a language, and evaluates it on labelled responses, with ablations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator

from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.extraction.engine import RuleExtractor, load_extractor
from mbbq_gen.extraction.jsonl import ResponseRow, read_rows
from mbbq_gen.extraction.lexicon import CLASSES, PLACES, SMALL, Lexicon, words_of
from mbbq_gen.extraction.question import Question
from mbbq_gen.languages.extraction_pack import WORD_LISTS, Grammar, read_grammar

_PARTICLES = "asks", "clitics", "and_before", "copula"


def check_pack(resources: PackPaths, language: str) -> list[str]:
    """The faults of a language's pack, as messages."""
    try:
        grammar = read_grammar(language, resources)
        extractor = load_extractor(language, resources)
    except MbbqGenError as error:
        return [str(error)]
    return [*_entry_faults(grammar, extractor.lexicon), *_example_faults(grammar, extractor)]


def _entry_faults(grammar: Grammar, lexicon: Lexicon) -> Iterator[str]:
    """Entries listed twice in a class, and words for places that are small words."""
    for name in CLASSES:
        seen = Counter(lexicon.key(entry) for entry in words_of(grammar.words[name]))
        for key in [key for key, count in seen.items() if count > 1]:
            yield f"words.{name}: {key!r} is listed twice once case and accents are dropped; remove one"
    for name in PLACES:
        for entry in words_of(grammar.places[name]):
            if "_" not in entry and lexicon.classes_of(lexicon.key(entry), entry) & SMALL:
                yield f"places.{name}: {entry!r} is a small word too; name the place by a row of words"


def _example_faults(grammar: Grammar, extractor: RuleExtractor) -> Iterator[str]:
    """Examples that are read wrongly, or right without an entry or class in their `needs`."""
    for example in grammar.example:
        question = Question(example.options, example.shown_labels, example.unknown_index, example.question)
        found = extractor.extract(example.response, question)
        if (found.outcome, found.option) != (example.outcome, example.option):
            read = f"{found.outcome}, option {found.option}"
            yield f"example: {example.response!r} is read as {read}; correct the pack or the example"
            continue
        for need in example.needs:
            less = leave_out(grammar, need)
            if less is None:
                yield f"example: needs {need!r}, which is no class and no entry of the pack"
                continue
            again = extractor.with_grammar(less).extract(example.response, question)
            if (again.outcome, again.option) == (found.outcome, found.option):
                yield f"example: {example.response!r} is read the same without {need!r}; find one that needs it"


def leave_out(grammar: Grammar, need: str) -> Grammar | None:
    """The grammar without a class (`words.neg`, `text.small`) or an entry; None if it has neither."""
    table, _, name = need.rpartition(".")
    table = table or "words"
    if name in WORD_LISTS.get(table, _PARTICLES if table == "script" else ()):
        lists = getattr(grammar, table)
        less = {**lists, name: ()} if isinstance(lists, dict) else lists.model_copy(update={name: ()})
        return grammar.model_copy(update={table: less})
    left = {
        name: tuple(" ".join(entry for entry in line.split() if entry != need) for line in lines)
        for name, lines in grammar.words.items()
    }
    return None if left == grammar.words else grammar.model_copy(update={"words": left})


class LabelledResponse(ResponseRow):
    """A response with its option, labelled by hand."""

    gold_option: Annotated[int, Field(strict=True)] | None
    """Index of the option; None if none is chosen."""

    @field_validator("gold_option")
    @classmethod
    def _is_index(cls, value: int | None, info: ValidationInfo) -> int | None:
        count = len(info.data.get("options", ()))
        if value is not None and count and not 0 <= value < count:
            raise ValueError(f"{value} is no index into {count} options")
        return value

    def evaluate(self, extractor: RuleExtractor) -> Literal["right", "wrong", "missed", "invented"]:
        """How the extraction compares with the label."""
        found = self.read(extractor).option
        if found == self.gold_option:
            return "right"
        if self.gold_option is None:
            return "invented"
        return "missed" if found is None else "wrong"


class WordClassAblation(FrozenModel):
    """The effect of leaving out one class of words."""

    name: str
    """Table and class, as `words.neg`."""
    entries: int
    needed: int
    """Responses that are right only with the class."""
    harmed: int
    """Responses that are right only without the class."""


class PackEvaluation(FrozenModel):
    """The evaluation of a pack on labelled responses."""

    language: str
    responses: int
    right: int
    wrong: int
    """A wrong option."""
    missed: int
    """No option, although there is one."""
    invented: int
    """An option, although there is none."""
    classes: tuple[WordClassAblation, ...]


def labelled_responses(lines: Iterable[str], source_name: str, language: str) -> Iterator[LabelledResponse]:
    """The responses of a language in JSON Lines as for `extract --jsonl`, with `gold_option`."""
    rows = read_rows(LabelledResponse, lines, source_name)
    return (found for _, found in rows if found.language == language)


def own_examples(language: str, resources: PackPaths) -> list[LabelledResponse]:
    """The examples of a pack as labelled responses."""
    return [
        LabelledResponse(
            language=language,
            response=example.response,
            options=list(example.options),
            labels=list(example.shown_labels),
            unknown_index=example.unknown_index,
            prompt=example.question,
            gold_option=example.unknown_index if example.outcome in {"abstention", "refusal"} else example.option,
        )
        for example in read_grammar(language, resources).example
    ]


def report_pack(
    language: str,
    responses: Sequence[LabelledResponse],
    resources: PackPaths,
    *,
    on_class: Callable[[str], object] = lambda _: None,
) -> PackEvaluation:
    """Evaluates a language's pack on labelled responses, with all classes and without each one.

    `on_class` is called with the name of each class before it is left out. Raises UsageError without responses.
    """
    if not responses:
        raise UsageError(
            f"{language}: no labelled response; give --labelled-file FILE with lines in this language, or write"
            " [[example]]s in the pack"
        )
    grammar, extractor = read_grammar(language, resources), load_extractor(language, resources)
    found = [labelled.evaluate(extractor) for labelled in responses]
    results = Counter(found)
    classes = []
    for table, name in [(table, name) for table, names in WORD_LISTS.items() for name in names]:
        entries, less = sum(1 for _ in words_of(grammar.word_list(table, name))), leave_out(grammar, f"{table}.{name}")
        if not entries or less is None:
            continue
        on_class(f"{table}.{name}")
        reader = extractor.with_grammar(less)
        pairs = [
            (before == "right", labelled.evaluate(reader) == "right")
            for labelled, before in zip(responses, found, strict=True)
        ]
        gains = {"needed": pairs.count((True, False)), "harmed": pairs.count((False, True))}
        classes.append(WordClassAblation(name=f"{table}.{name}", entries=entries, **gains))
    return PackEvaluation(
        language=language,
        responses=len(responses),
        right=results["right"],
        wrong=results["wrong"],
        missed=results["missed"],
        invented=results["invented"],
        classes=tuple(sorted(classes, key=lambda gain: (gain.harmed - gain.needed, -gain.needed, gain.name))),
    )
