"""Words the unknown option anew: one text for all questions, or drawn from the wordings that the benchmark has.

For sensitivity studies: does a score depend on how "it can't be told" is put? The question keeps its roles and its
right answer; the published text goes into its metadata, and the quirk `unknown_reworded` says that it was replaced.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from mbbq_gen.errors import UsageError
from mbbq_gen.records import Instance
from mbbq_gen.seeding import stable_number

SAMPLED: Final = "sampled"
QUIRK: Final = "unknown_reworded"
PUBLISHED_TEXT: Final = "published_unknown"
"""Name in an instance's metadata of the text that was replaced."""

_CODE: Final = r"[a-z]{2,3}(?:-[A-Za-z0-9]+)*"
_ENTRY: Final = re.compile(rf"\s*({_CODE})=(.*)", re.S)
_BETWEEN: Final = re.compile(rf",(?=\s*{_CODE}=)")


@dataclass(frozen=True)
class UnknownWording:
    """What `--unknown-wording` asks for."""

    everywhere: str | None = None
    """The text in every language."""
    by_language: Mapping[str, str] = field(default_factory=dict)
    """Language → text."""

    @property
    def sampled(self) -> bool:
        """Whether the wordings are drawn from those of the benchmark."""
        return self.everywhere is None and not self.by_language

    def text_in(self, language: str) -> str:
        """The text in a language.

        Raises:
            UsageError: where there is none.
        """
        text = self.by_language.get(language) if self.everywhere is None else self.everywhere
        if text is None:
            raise UsageError(f"--unknown-wording: no text for {language}; name one: {language}=TEXT")
        return text


def parse_unknown_wording(text: str) -> UnknownWording:
    """What a text on the command line asks for: `sampled`, `TEXT`, or `en=TEXT,nl=TEXT`.

    A comma belongs to a text unless a language code and `=` follow it.

    Raises:
        UsageError: where a text is empty or a language is named twice.
    """
    if text.strip() == SAMPLED:
        return UnknownWording()
    if not _ENTRY.fullmatch(text):
        return UnknownWording(everywhere=_checked(text))
    texts: dict[str, str] = {}
    for entry in _BETWEEN.split(text):
        match = _ENTRY.fullmatch(entry)
        assert match is not None  # each part begins with a code, by the way it was split
        if match[1] in texts:
            raise UsageError(f"--unknown-wording {text!r}: {match[1]} is named twice")
        texts[match[1]] = _checked(match[2])
    return UnknownWording(by_language=texts)


def _checked(text: str) -> str:
    """A text without blanks at its edges, of which something must be left."""
    if not text.strip():
        raise UsageError("--unknown-wording: the text is empty; name one, or `sampled`")
    return text.strip()


def reword_all(instances: Iterable[Instance], wording: UnknownWording) -> Iterator[Instance]:
    """The questions with the unknown option in the given words; `wording` must not be `sampled`."""
    for instance in instances:
        yield reword(instance, wording.text_in(instance.language))


def reword(instance: Instance, text: str) -> Instance:
    """The question with its unknown option in other words; the same one where it has these already.

    Raises:
        UsageError: where a person has that very text.
    """
    old = instance.options[instance.unknown_index]
    if old.text == text:
        return instance
    if any(option.text.casefold() == text.casefold() for option in instance.options if option is not old):
        raise UsageError(f"--unknown-wording {text!r}: is the text of a person in {instance.key}")
    options = tuple(
        option.model_copy(update={"text": text}) if option is old else option for option in instance.options
    )
    return instance.model_copy(
        update={
            "options": options,
            "quirks": (*instance.quirks, QUIRK),
            "metadata": {**instance.metadata, PUBLISHED_TEXT: old.text},
        }
    )


class WordingPool:
    """The unknown option's wordings that benchmarks have, by language, and a draw from them."""

    def __init__(self, instances: Iterable[Instance], seed: int) -> None:
        """Reads all questions once.

        Raises:
            UsageError: where a benchmark has a single wording in a language, so that nothing can be drawn.
        """
        found: dict[tuple[str, str], set[str]] = defaultdict(set)
        for instance in instances:
            found[instance.benchmark, instance.language].add(instance.options[instance.unknown_index].text)
        for (benchmark, language), texts in found.items():
            if len(texts) < 2:
                raise UsageError(
                    f"--unknown-wording sampled: {benchmark} has one wording only in {language}, {next(iter(texts))!r};"
                    " give texts of your own"
                )
        self._texts = {where: sorted(texts) for where, texts in found.items()}
        self._seed = seed

    def draw(self, instance: Instance) -> str:
        """The wording of a question: the same for the same seed and parallel id, whatever else is asked."""
        people = {option.text.casefold() for option in instance.options if option.role != "unknown"}
        known = self._texts[instance.benchmark, instance.language]
        texts = [text for text in known if text.casefold() not in people] or [
            instance.options[instance.unknown_index].text
        ]
        twin = instance.parallel_id or instance.instance_id
        return texts[stable_number(self._seed, SAMPLED, twin) % len(texts)]

    def reword_all(self, instances: Iterable[Instance]) -> Iterator[Instance]:
        """The questions, each with its drawn wording."""
        for instance in instances:
            yield reword(instance, self.draw(instance))
