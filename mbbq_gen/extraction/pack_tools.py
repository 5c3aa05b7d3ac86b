"""How a pack reads labelled responses, with and without each of its classes of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Annotated, Literal

from pydantic import Field

from mbbq_gen.core.errors import DataError, MbbqGenError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, FrozenModel
from mbbq_gen.extraction.engine import RuleExtractor, load_extractor
from mbbq_gen.extraction.jsonl import ResponseRow, read_row
from mbbq_gen.extraction.lexicon import CLASSES, PLACES, SMALL, Lexicon, words_of
from mbbq_gen.extraction.lines import mark_phrases, read_lines
from mbbq_gen.extraction.question import Question
from mbbq_gen.languages.extraction_pack import WORD_LISTS, Grammar, read_grammar
from mbbq_gen.languages.packs import PLACEHOLDER
from mbbq_gen.languages.prompt_pack import read_prompts

QUIET = "refuse", "not_stated", "unclear", "correction", "forced"
"""Classes whose words must not stand in our own prompts, nor in the text of an option that is a person."""
MAX_LINE, MAX_LINES = 160, 200
"""Characters of a line, and lines of words, that a reader can take in."""
_PARTICLES = "asks", "clitics", "and_before", "copula"


class Finding(FrozenModel):
    """Something wrong with a pack."""

    file: str
    """The pack's file, as `extractors/nl.toml`."""
    key: str
    value: str
    message: str

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message} (value: {self.value!r})"


def check_pack(resources: PackPaths, language: str, persons: Iterable[str] = ()) -> list[Finding]:
    """What is wrong with a language's pack; empty where all is well.

    `persons` are option texts of ours that are people: none of the quiet classes may stand in them.
    """
    file = f"extractors/{language}.toml"
    try:
        grammar = read_grammar(language, resources)
        extractor = load_extractor(language, resources)
    except MbbqGenError as error:
        return [Finding(file=file, key="", value="", message=str(error))]
    texts = [(text, "an option text of ours") for text in persons]
    if resources.find("prompts", language) is not None:
        with suppress(MbbqGenError):  # faults of prompts are found by their own check
            variants = read_prompts(resources, language).variant
            texts += [(PLACEHOLDER.sub(" ", variant.text), "a prompt of ours") for variant in variants]
    path = resources.find("extractors", grammar.meta.language)
    lines = path.read_text(encoding="utf-8").splitlines() if path else []
    found = [*_entry_faults(grammar, extractor.lexicon), *_example_faults(grammar, extractor)]
    found += [
        (f"line {number}", line[:60], f"has {len(line)} characters; {MAX_LINE} at most")
        for number, line in enumerate(lines, 1)
        if len(line) > MAX_LINE
    ]
    count = sum(map(len, grammar.words.values()))
    found += [("words", str(count), f"lines of words; {MAX_LINES} at most")] if count > MAX_LINES else []
    for text, what in texts:
        for line in read_lines(text, extractor.lexicon):
            mark_phrases(line, extractor.lexicon.rows)
            for name in QUIET:
                words = [word for word, mask in zip(line.texts, line.masks, strict=True) if mask & CLASSES[name]]
                message = f"stands in {what}: {text!r}; use a narrower entry"
                found += [(f"words.{name}", word, message) for word in words]
    return [Finding(file=file, key=key, value=value, message=message) for key, value, message in found]


def _entry_faults(grammar: Grammar, lexicon: Lexicon) -> Iterator[tuple[str, str, str]]:
    """Key, value and message of entries that stand twice in a class, and of words for places that are small words."""
    for name in CLASSES:
        seen: set[str] = set()
        for entry in words_of(grammar.words[name]):
            key = lexicon.key(entry)
            if key in seen:
                yield f"words.{name}", entry, "is listed twice once case and accents are dropped; remove one"
            seen.add(key)
    for name in PLACES:
        for entry in words_of(grammar.places[name]):
            if "_" not in entry and lexicon.mask_of(lexicon.key(entry), entry) & SMALL:
                yield f"places.{name}", entry, "is a small word too; name the place by a row of words"


def _example_faults(grammar: Grammar, extractor: RuleExtractor) -> Iterator[tuple[str, str, str]]:
    """The same of examples that are read otherwise, and of those that don't need what they say they need."""
    for example in grammar.example:
        question = Question(example.options, example.shown_labels, example.unknown_index, example.question)
        found = extractor.extract(example.response, question)
        if (found.outcome, found.option) != (example.outcome, example.option):
            message = f"read as {found.outcome}, option {found.option}; correct the pack or the example"
            yield "example", example.response, message
            continue
        for need in example.needs:
            less = without(grammar, need)
            if less is None:
                yield "example", need, "needs names no class and no entry of the pack"
                continue
            again = extractor.with_grammar(less).extract(example.response, question)
            if (again.outcome, again.option) == (found.outcome, found.option):
                yield "example", example.response, f"is read the same without {need!r}; find an example that needs it"


def without(grammar: Grammar, need: str) -> Grammar | None:
    """The grammar without a class (`words.neg`, `text.small`), or without an entry; None where there is none such."""
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


LabelledOutcome = Literal["right", "wrong", "missed", "invented"]


class LabelledResponse(ResponseRow):
    """A response and the option that a careful reader sees in it."""

    gold_option: Annotated[int, Field(strict=True)] | None = None

    def outcome(self, extractor: RuleExtractor) -> tuple[LabelledOutcome, Extraction]:
        """How an extraction compares: right, another option, none where there is one, or one where there is none."""
        found = self.read(extractor)
        if found.option == self.gold_option:
            return "right", found
        if self.gold_option is None:
            return "invented", found
        return ("missed" if found.option is None else "wrong"), found


class ConfidenceShare(FrozenModel):
    """The readings of one confidence."""

    readings: int
    right: int


class WordClassAblation(FrozenModel):
    """What one class of words does for the labelled responses."""

    name: str
    """Table and class, as `words.neg`."""
    entries: int
    needed: int
    """Responses that are read right with it and not without it."""
    harmed: int
    """Responses that are read right without it and not with it."""


class PackEvaluation(FrozenModel):
    """How a pack reads labelled responses."""

    language: str
    responses: int
    right: int
    wrong: int
    """Another option than the right one."""
    missed: int
    """No option where there is one."""
    invented: int
    """An option where there is none."""
    by_confidence: dict[str, ConfidenceShare]
    classes: tuple[WordClassAblation, ...]


def labelled_responses(lines: Iterable[str], source_name: str, language: str) -> Iterator[LabelledResponse]:
    """The labelled responses of a language in JSON Lines: the fields of `extract --jsonl`, and `gold_option`."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source_name}:{number}"
        row, found = read_row(LabelledResponse, line, where)
        if "gold_option" not in row:
            raise DataError(f"{where}: gold_option: missing; write the option's index, or null where none is chosen")
        if found.gold_option is not None and not 0 <= found.gold_option < len(found.options):
            raise DataError(f"{where}: gold_option: {found.gold_option} is no index into {len(found.options)} options")
        if found.language == language:
            yield found


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
    """Reads labelled responses with a language's pack, and again without each of its classes.

    `on_class` hears the name of each class before it is left out. Raises UsageError where there are no responses.
    """
    if not responses:
        raise UsageError(
            f"{language}: no labelled response; give --labelled-file FILE with lines in this language, or write"
            " [[example]]s in the pack"
        )
    grammar, extractor = read_grammar(language, resources), load_extractor(language, resources)
    outcomes: Counter[LabelledOutcome] = Counter()
    shares: dict[str, Counter[bool]] = {}
    right = []
    for labelled in responses:
        outcome, found = labelled.outcome(extractor)
        outcomes[outcome] += 1
        shares.setdefault(found.confidence, Counter())[outcome == "right"] += 1
        right.append(outcome == "right")
    classes = []
    filled = [(table, name) for table, names in WORD_LISTS.items() for name in names]
    for table, name in filled:
        lines = grammar.word_list(table, name)
        less = without(grammar, f"{table}.{name}")
        if not lines or less is None:
            continue
        on_class(f"{table}.{name}")
        reader = extractor.with_grammar(less)
        pairs = [(was, labelled.outcome(reader)[0] == "right") for labelled, was in zip(responses, right, strict=True)]
        classes.append(
            WordClassAblation(
                name=f"{table}.{name}",
                entries=sum(1 for _ in words_of(lines)),
                needed=pairs.count((True, False)),
                harmed=pairs.count((False, True)),
            )
        )
    return PackEvaluation(
        language=language,
        responses=len(responses),
        right=outcomes["right"],
        wrong=outcomes["wrong"],
        missed=outcomes["missed"],
        invented=outcomes["invented"],
        by_confidence={
            name: ConfidenceShare(readings=shares[name].total(), right=shares[name][True])
            for name in ("high", "medium", "low")
            if name in shares
        },
        classes=tuple(sorted(classes, key=lambda gain: (gain.harmed - gain.needed, -gain.needed, gain.name))),
    )
