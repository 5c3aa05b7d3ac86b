"""Checks an extractor pack beyond its schema: does every list earn its place, and does none of them catch too much?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from mbbq_gen.errors import MbbqGenError
from mbbq_gen.extraction.automaton import Automaton
from mbbq_gen.extraction.engine import Extractor, load_extractor
from mbbq_gen.extraction.pack import PHRASE_LISTS, Example, ExtractorPack, read_extractor_pack
from mbbq_gen.extraction.patterns import Rule, word_rows
from mbbq_gen.extraction.tokens import tokenise
from mbbq_gen.languages import PLACEHOLDER, read_prompts
from mbbq_gen.records import Record
from mbbq_gen.resources import Resources

QUIET_LISTS = ("unknown.statement", "unknown.short", "unknown.refusal", "markers.correction", "relations.neither")
"""Lists whose phrases must not match in our own prompts, nor in the text of an option that is a person."""
MAX_ROWS = 400
"""Word rows of one announcement that are tried."""


class Finding(Record):
    """Something wrong with a pack."""

    file: str
    """The pack's file, as `extractors/nl.toml`."""
    key: str
    """The list or table, as `cues.before`."""
    value: str
    """The line, as written."""
    message: str
    """What is wrong and what to do."""

    def __str__(self) -> str:
        return f"{self.file}: {self.key}: {self.message} (value: {self.value!r})"


def check_pack(resources: Resources, language: str, persons: Iterable[str] = ()) -> list[Finding]:
    """What is wrong with a language's extractor pack; empty where all is well.

    Args:
        resources: Where packs are looked for.
        language: The pack to check.
        persons: Option texts of ours that mean a person: no unknown wording may match in them.
    """
    file = f"extractors/{language}.toml"
    try:
        pack = read_extractor_pack(resources, language)
        extractor = load_extractor(language, resources)
    except MbbqGenError as error:
        return [Finding(file=file, key="", value="", message=str(error))]
    check = _Check(file, pack, extractor)
    findings = [*check.repeated(), *check.examples(), *check.unneeded(), *check.hidden_unknown()]
    findings += check.matching(persons, "an option text of ours")
    findings += check.matching(_prompt_texts(resources, language), "a prompt of ours")
    return findings


def _prompt_texts(resources: Resources, language: str) -> list[str]:
    """Our prompt wordings without their placeholders."""
    if resources.find("prompts", language) is None:
        return []
    return [PLACEHOLDER.sub(" ", variant.text) for variant in read_prompts(resources, language).variant]


@dataclass
class _Check:
    """One pack under check."""

    file: str
    pack: ExtractorPack
    extractor: Extractor

    def repeated(self) -> Iterator[Finding]:
        """Lines that stand twice in a list once case and accents are dropped."""
        seen: set[tuple[str, str]] = set()
        for key, line in (*self.pack.phrases(), *_word_lists(self.pack)):
            normal = " ".join(token.key for token in tokenise(line)) + "".join(
                sign for sign in line if sign in "(){}|?:^$…,*="
            )
            if (key, normal) in seen:
                yield self._finding(key, line, "stands twice once case and accents are dropped; remove one")
            seen.add((key, normal))

    def examples(self) -> Iterator[Finding]:
        """Examples that are read otherwise, and examples that don't need what they say they need."""
        lists = {f"{table}.{key}" for table, key in PHRASE_LISTS}
        lines = {line for _, line in self.pack.phrases()}
        for key, example in self._all_examples():
            found = self._read(example, frozenset())
            if found != (example.outcome, example.option):
                yield self._finding(
                    key, example.response, f"read as {found[0]}, option {found[1]}; mend the pack or the example"
                )
                continue
            for need in example.needs:
                if need not in lists and need not in lines:
                    yield self._finding(key, need, "needs names no list and no line of the pack")
                elif self._read(example, frozenset({need})) == found:
                    yield self._finding(
                        key, example.response, f"is read the same without {need!r}; find an example that needs it"
                    )

    def unneeded(self) -> Iterator[Finding]:
        """Lists with lines in them that no example needs."""
        needed = {need for _, example in self._all_examples() for need in example.needs}
        for table, key in PHRASE_LISTS:
            name = f"{table}.{key}"
            lines = [line for family, line in self.pack.phrases() if family == name]
            if lines and name not in needed and needed.isdisjoint(lines):
                yield self._finding(name, lines[0], "no example needs this list; add one with needs")

    def hidden_unknown(self) -> Iterator[Finding]:
        """Announcements in which an unknown wording hides."""
        unknown = self._automaton(("unknown.statement", "unknown.short", "unknown.refusal"))
        for key, line in self.pack.phrases():
            if not key.startswith("cues."):
                continue
            for row in word_rows(line, MAX_ROWS):
                if _matches(unknown, " ".join(row)):
                    yield self._finding(
                        key, line, f"an unknown wording hides in {' '.join(row)!r}; word one of them more narrowly"
                    )
                    break

    def matching(self, texts: Iterable[str], what: str) -> Iterator[Finding]:
        """Lines of the quiet lists that match in texts of ours."""
        automaton = self._automaton(QUIET_LISTS)
        for text in texts:
            for hit in automaton.find(tokenise(text)):
                yield self._finding(
                    hit.rule.family, hit.rule.phrase, f"matches in {what}: {text!r}; word it more narrowly"
                )

    def _automaton(self, families: tuple[str, ...]) -> Automaton:
        rules = [Rule(key, line, self.pack.meta.language, True) for key, line in self.pack.phrases() if key in families]
        return Automaton(rules, turkish=self.pack.script.casefold == "turkish")

    def _all_examples(self) -> Iterator[tuple[str, Example]]:
        for key, examples in (("example", self.pack.example), ("counter_example", self.pack.counter_example)):
            for example in examples:
                yield key, example

    def _read(self, example: Example, without: frozenset[str]) -> tuple[str, int | None]:
        """Outcome and option of an example, some lists or lines of the pack left out."""
        aliases = {"en": example.aliases} if example.aliases else None
        extraction = self.extractor.extract_without(
            without, example.response, example.options, example.shown_labels, example.unknown_index, aliases
        )
        return extraction.outcome, extraction.option

    def _finding(self, key: str, value: str, message: str) -> Finding:
        return Finding(file=self.file, key=key, value=value, message=message)


def _word_lists(pack: ExtractorPack) -> Iterator[tuple[str, str]]:
    """Every plain word of the pack with its list."""
    phrases = {f"{table}.{key}" for table, key in PHRASE_LISTS}
    for table in ("labels", "ordinals", "cues", "relations", "text", "headers", "verdicts", "structured"):
        part = getattr(pack, table)
        for key in type(part).model_fields:
            value = getattr(part, key)
            if f"{table}.{key}" in phrases or not isinstance(value, tuple):
                continue
            for word in value:
                if isinstance(word, str):
                    yield f"{table}.{key}", word


def _matches(automaton: Automaton, text: str) -> bool:
    return automaton.matches(tokenise(text))
