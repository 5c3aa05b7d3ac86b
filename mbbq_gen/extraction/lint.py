"""Checks a pack beyond its schema: are its examples read as they say, and does no class catch too much?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mbbq_gen.errors import MbbqGenError
from mbbq_gen.extraction.engine import Extractor, load_extractor, read_grammar
from mbbq_gen.extraction.lexicon import CLASSES, PLACES, SMALL, Lexicon, words_of
from mbbq_gen.extraction.lines import read_lines
from mbbq_gen.extraction.pack import Example, Grammar, People, Places
from mbbq_gen.extraction.rows import mark_rows
from mbbq_gen.languages import PLACEHOLDER, read_prompts
from mbbq_gen.records import Record
from mbbq_gen.resources import Resources

QUIET = ("refuse", "untold", "unclear", "correction", "forced")
"""Classes whose words must not stand in our own prompts, nor in the text of an option that is a person."""
MAX_LINE, MAX_LINES = 160, 200
"""Characters of a line, and lines of words, that a reader can take in."""


_PARTICLES = ("asks", "clitics", "and_before", "and_behind", "copula")
"""What `[script]` lists."""
PARTS: dict[str, tuple[str, ...]] = {
    "words": tuple(CLASSES),
    "text": ("small", "persons", "suffixes", "agreement"),
    "labels": ("nouns", "nouns_after", "stray"),
    "places": tuple(Places.model_fields),
    "people": tuple(People.model_fields),
}
"""Table of a pack → its lists of words."""


class Finding(Record):
    """Something wrong with a pack."""

    file: str
    """The pack's file, as `extractors/nl.toml`."""
    key: str
    """The class or table, as `words.neg`."""
    value: str
    """The line or entry, as written."""
    message: str
    """What is wrong and what to do."""

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message} (value: {self.value!r})"


def check_pack(resources: Resources, language: str, persons: Iterable[str] = ()) -> list[Finding]:
    """What is wrong with a language's pack; empty where all is well.

    Args:
        resources: Where packs are looked for.
        language: The pack to check.
        persons: Option texts of ours that mean a person: none of the quiet classes may stand in them.
    """
    file = f"extractors/{language}.toml"
    try:
        grammar = read_grammar(language, resources)
        extractor = load_extractor(language, resources)
    except MbbqGenError as error:
        return [Finding(file=file, key="", value="", message=str(error))]
    check = _Check(file, grammar, extractor, resources)
    findings = [*check.repeated(), *check.long_lines(), *check.words_for_places(), *check.examples()]
    findings += check.loud(persons, "an option text of ours")
    findings += check.loud(_prompt_texts(resources, language), "a prompt of ours")
    return findings


def _prompt_texts(resources: Resources, language: str) -> list[str]:
    """Our prompt wordings without their placeholders; none where they are wrong, which their own check tells."""
    if resources.find("prompts", language) is None:
        return []
    try:
        return [PLACEHOLDER.sub(" ", variant.text) for variant in read_prompts(resources, language).variant]
    except MbbqGenError:
        return []


@dataclass
class _Check:
    """One pack under check."""

    file: str
    grammar: Grammar
    extractor: Extractor
    resources: Resources

    def repeated(self) -> Iterator[Finding]:
        """Entries that stand twice in a class."""
        for name in CLASSES:
            seen: set[str] = set()
            for entry in words_of(getattr(self.grammar.words, name)):
                key = self.extractor.lexicon.key(entry)
                if key in seen:
                    yield self._finding(
                        f"words.{name}", entry, "stands twice once case and accents are dropped; remove one"
                    )
                seen.add(key)

    def long_lines(self) -> Iterator[Finding]:
        """Lines that nobody can read, and packs that nobody can."""
        path: Path | None = self.resources.find("extractors", self.grammar.meta.language)
        lines = path.read_text(encoding="utf-8").splitlines() if path else []
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_LINE:
                yield self._finding(f"line {number}", line[:60], f"has {len(line)} characters; {MAX_LINE} at most")
        count = sum(len(getattr(self.grammar.words, name)) for name in CLASSES)
        if count > MAX_LINES:
            yield self._finding("words", str(count), f"lines of words; {MAX_LINES} at most")

    def words_for_places(self) -> Iterator[Finding]:
        """Words for a place that are small words too: "een" is no number one."""
        lexicon = self.extractor.lexicon
        for name in PLACES:
            for entry in words_of(getattr(self.grammar.places, name)):
                if "_" not in entry and lexicon.mask_of(lexicon.key(entry), entry) & SMALL:
                    yield self._finding(
                        f"places.{name}", entry, "is a small word too; name the place by a row of words"
                    )

    def examples(self) -> Iterator[Finding]:
        """Examples that are read otherwise, and examples that don't need what they say they need."""
        for example in self.grammar.example:
            found = _read(self.extractor, example)
            if found != (example.outcome, example.option):
                message = f"read as {found[0]}, option {found[1]}; mend the pack or the example"
                yield self._finding("example", example.response, message)
                continue
            for need in example.needs:
                less = without(self.grammar, need)
                if less is None:
                    yield self._finding("example", need, "needs names no class and no entry of the pack")
                elif _read(self.extractor.with_grammar(less), example) == found:
                    message = f"is read the same without {need!r}; find an example that needs it"
                    yield self._finding("example", example.response, message)

    def loud(self, texts: Iterable[str], what: str) -> Iterator[Finding]:
        """Words of the quiet classes that stand in texts of ours."""
        lexicon = self.extractor.lexicon
        for text in texts:
            for name, entry in _classes_in(text, lexicon):
                if name in QUIET:
                    yield self._finding(f"words.{name}", entry, f"stands in {what}: {text!r}; word it more narrowly")

    def _finding(self, key: str, value: str, message: str) -> Finding:
        return Finding(file=self.file, key=key, value=value, message=message)


def without(grammar: Grammar, need: str) -> Grammar | None:
    """The grammar without a class (`words.neg`, `text.small`), or without an entry; None where there is none such."""
    table, _, name = need.rpartition(".")
    table = table or "words"
    if name in PARTS.get(table, _PARTICLES if table == "script" else ()):
        return grammar.model_copy(update={table: getattr(grammar, table).model_copy(update={name: ()})})
    left = {
        name: tuple(" ".join(entry for entry in line.split() if entry != need) for line in getattr(grammar.words, name))
        for name in CLASSES
    }
    if all(left[name] == getattr(grammar.words, name) for name in CLASSES):
        return None
    return grammar.model_copy(update={"words": grammar.words.model_copy(update=left)})


def _read(extractor: Extractor, example: Example) -> tuple[str, int | None]:
    """Outcome and option of an example."""
    found = extractor.extract(example.response, example.asked)
    return found.outcome, found.option


def _classes_in(text: str, lexicon: Lexicon) -> Iterator[tuple[str, str]]:
    """The classes that words of a text have, each with the word."""
    for line in read_lines(text, lexicon):
        mark_rows(line, lexicon.rows)
        for word, mask in zip(line.texts, line.masks, strict=True):
            yield from ((name, word) for name, bit in CLASSES.items() if mask & bit)
