"""Finds parts that are not the answer: reasoning, echoes, other turns of a conversation.

They are replaced by as many spaces, so that offsets stay valid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import regex

from mbbq_gen.extraction.text import loose_key, normalise
from mbbq_gen.languages.extraction_pack import SharedSigns, Words

ZoneKind = Literal["reasoning", "echo", "continuation", "markup"]
MAX_HEAD, MAX_TAIL = 4000, 12000
"""First and last characters that are read of a longer response, in whole sentences."""
MIN_CUT_ECHO = 4
"""Fewest letters of a cut-off last line that continues an echo."""
MAX_FRAGMENT = 60
"""Most characters of unclosed bold type that is dropped."""
MIN_ECHO = 25
"""Fewest letters of a line or sentence that is an echo."""
_MARKUP = regex.compile(
    r"[\x1b␛]\[[0-9;]{0,20}[A-Za-z]|\\(?:text(?:bf|it|rm|sf|tt)?|math(?:bf|rm|it|sf|tt)|operatorname|displaystyle|left|right|quad|[,;!()\[\]])(?![\p{L}])"
    r"|</?[A-Za-z][A-Za-z0-9]{0,15}(?:\s[^<>\n]{0,80})?/?>"
)
_STATEMENT_END = regex.compile(r"[.!?।؟]\s|[。！？\n]")
_BLANKS = regex.compile(r"\s+")
_SENTENCE = regex.compile(r"[^.!?。！？।؟]+[.!?。！？।؟]*")
_EMPHASIS = str.maketrans("", "", "*_#>")
_NOT_APPLICABLE = regex.compile(r"(?<![\p{L}\d/])[nN] ?/ ?[aA](?![\p{L}\d/])")


@dataclass(frozen=True, slots=True)
class Zone:
    """A part of the normalised text that is not the answer."""

    kind: ZoneKind
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ZonedText:
    """The normalised text with its zones blanked."""

    body: str
    zones: tuple[Zone, ...]
    open_reasoning: bool
    """Whether a reasoning block was never closed."""


class Zoner:
    """Finds zones by the signs in the shared pack."""

    def __init__(self, shared: SharedSigns, reasoning_tags: Words) -> None:
        pairs = [(block.open, block.close) for block in shared.reasoning if not block.at_start]
        pairs += [(f"<{tag}>", f"</{tag}>") for tag in reasoning_tags]
        self._openers = _any_of([opener for opener, _ in pairs])
        self._closing = _any_of([closer for _, closer in pairs])
        self._signs = regex.compile(f"(?P<close>{self._closing.pattern})|{self._openers.pattern}", regex.IGNORECASE)
        self._start_blocks = [(block.open, block.close) for block in shared.reasoning if block.at_start]
        self._end_tokens = _any_of(shared.end_tokens)
        self._drop_tokens = _any_of(shared.drop_tokens)
        self._turn_tokens = _any_of(shared.turn_tokens)
        self._speakers = _any_of([token for token in shared.turn_tokens if token.startswith("\n")])

    def read(self, text: str, prompt: str | None, options: tuple[str, ...]) -> ZonedText:
        """A normalised text with its zones found and blanked."""
        zones: list[Zone] = []
        if len(text) > MAX_HEAD + MAX_TAIL:  # its middle, from the end of a sentence to the end of another one
            start = max((match.end() for match in _STATEMENT_END.finditer(text, 0, MAX_HEAD)), default=0)
            tail = _STATEMENT_END.search(text, len(text) - MAX_TAIL)
            zones.append(Zone("continuation", start, tail.end() if tail else len(text)))
        body, open_reasoning = text, False
        starts = any(text.startswith(opener) for opener, _ in self._start_blocks)
        if starts or "<" in text or "[" in text or "◁" in text or ("\n" in text and self._speakers.search(text)):
            reasoning, open_reasoning = self._reasoning(body)
            zones += reasoning
            body = blank(body, reasoning)
            turns = self._turns(body, bool(reasoning))
            zones += turns
            body = blank(body, turns)
        if zones and zones[0].kind == "continuation":
            body = blank(body, zones[:1])
        if prompt:
            echoes = find_echo(body, prompt, options)
            zones += echoes
            body = blank(body, echoes)
        return ZonedText(without_fragments(body, options), tuple(zones), open_reasoning)

    def _reasoning(self, body: str) -> tuple[list[Zone], bool]:
        """Reasoning blocks, nested or not, and whether the last one is open.

        Everything before a closing sign without an opening one is reasoning; the last closing sign closes all.
        """
        for opener, closer in self._start_blocks:
            end = body.find(closer)
            if body.startswith(opener) and body[len(opener) : len(opener) + 1].isupper() and end >= 0:
                return [Zone("reasoning", 0, end + len(closer))], False
        signs = list(self._signs.finditer(body))
        last = max((number for number, sign in enumerate(signs) if sign["close"]), default=-1)
        zones: list[Zone] = []
        start = depth = 0
        for number, sign in enumerate(signs):
            if not sign["close"]:
                start = sign.start() if depth == 0 else start
                depth += 1
                continue
            if depth == 0:
                zones, start = [], 0
            depth = 0 if number == last else max(depth - 1, 0)
            if depth == 0:
                zones.append(Zone("reasoning", start, sign.end()))
        if depth:
            zones.append(Zone("reasoning", start, len(body)))
        return zones, depth > 0

    def blocks(self, text: str) -> Iterator[tuple[int, int, int, bool]]:
        """Each reasoning block: start and end of its content, its own end, whether it is open."""
        zones, is_open = self._reasoning(text)
        for zone in zones:
            opener = self._openers.match(text, zone.start)
            start = opener.end() if opener else zone.start
            closers = [match.start() for match in self._closing.finditer(text, zone.start, zone.end)]
            end = closers[-1] if closers else zone.end
            yield start, max(start, end), zone.end, is_open and zone is zones[-1]

    def _turns(self, body: str, has_reasoning: bool) -> list[Zone]:
        """Special tokens, and turns of a conversation around the answer; `has_reasoning`: the text has reasoning."""
        zones = [Zone("markup", *match.span()) for match in self._drop_tokens.finditer(body)]
        start = 0
        turns = [zone for zone in zones if "assistant" in body[zone.start : zone.end].lower()]
        if turns and (has_reasoning or body[turns[-1].end :].strip()):  # the text before it is the end of the prompt
            return [Zone("echo", 0, turns[-1].end), *self._ends(body, turns[-1].end)]
        opening = self._turn_tokens.match(body.lstrip())
        if opening and zones:
            start = zones[-1].end if "[/INST]" not in body else body.index("[/INST]") + len("[/INST]")
            zones = [zone for zone in zones if zone.start >= start]
            zones.append(Zone("echo", 0, start))
        return [*zones, *self._ends(body, start)]

    def _ends(self, body: str, start: int) -> list[Zone]:
        """Signs that end a turn, and the text after them."""
        zones: list[Zone] = []
        for tokens in (self._end_tokens, self._turn_tokens):
            for match in tokens.finditer(body, start):
                if body[start : match.start()].strip():
                    return [*zones, Zone("continuation", match.start(), len(body))]
                zones.append(Zone("markup", *match.span()))
        return zones


def without_fragments(body: str, options: tuple[str, ...]) -> str:
    """The text without "N/A" and without unclosed bold type at its end."""
    if "/" in body and not any(_NOT_APPLICABLE.search(option) for option in options):
        body = _NOT_APPLICABLE.sub(lambda match: " " * len(match.group()), body)
    start = body.rfind("**")
    is_unclosed = start >= 0 and body.count("**") % 2 and "\n" not in body[start:] and body.rstrip()[-1].isalnum()
    if is_unclosed and body[:start].strip() and len(body.rstrip()) - start < MAX_FRAGMENT:
        body = body[:start] + " " * (len(body) - start)
    return body


def strip_markup(body: str) -> str:
    """The text with LaTeX commands and HTML tags blanked."""
    if "\\" not in body and "<" not in body and "\x1b" not in body and "␛" not in body:
        return body

    def blanks(match: regex.Match[str]) -> str:
        tag = match.group()
        if len(tag) == 3 and tag[1].isupper() and f"</{tag[1]}" not in body:  # a label: `<B>`
            return f"({tag[1]})"
        return ("\n" if tag.startswith("<br") else " ") + " " * (len(tag) - 1)

    return _MARKUP.sub(blanks, body)


def blank(text: str, zones: list[Zone]) -> str:
    """The text with zones replaced by a paragraph break and spaces; tokens by spaces."""
    for zone in zones:
        length = zone.end - zone.start
        filler = " " * length if zone.kind == "markup" or length < 2 else "\n\n" + " " * (length - 2)
        text = text[: zone.start] + filler + text[zone.end :]
    return text


def _any_of(literals: tuple[str, ...] | list[str]) -> regex.Pattern[str]:
    """A pattern for any of the literals, the longest first, in any case."""
    ordered = sorted(literals, key=len, reverse=True)
    return regex.compile("|".join(regex.escape(literal) for literal in ordered) or r"(?!)", regex.IGNORECASE)


# --- echo of the prompt ----------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _squeezed_prompt(prompt: str) -> tuple[str, tuple[str, ...]]:
    """A prompt and its lines, normalised by `squeeze`."""
    text = normalise(prompt).text
    return squeeze(text), tuple(line for raw in text.splitlines() if (line := squeeze(raw)))


def squeeze(text: str) -> str:
    """The text with its case folded, without emphasis, with single spaces."""
    plain = (text.lower() if text.isascii() else loose_key(text)).translate(_EMPHASIS).strip()
    return " ".join(plain.split()) if plain.isprintable() else _BLANKS.sub(" ", plain)


def find_echo(body: str, prompt: str, options: tuple[str, ...]) -> list[Zone]:
    """Lines and sentences of the prompt that the response repeats.

    A line that is an option is an answer, unless it continues an echo as in the prompt.
    """
    whole, lines = _squeezed_prompt(prompt)
    texts = tuple(squeeze(option) for option in options)
    zones: list[Zone] = []
    position = expected = 0
    for raw in body.splitlines(keepends=True):
        start, position = position, position + len(raw)
        line = squeeze(raw) if expected or _begins_in_prompt(raw, whole) else ""
        if expected and not line:
            continue
        cut = position == len(body) and len(line) >= MIN_CUT_ECHO
        next_line = lines[expected] if 0 < expected < len(lines) else None
        if next_line is not None and (line == next_line or (cut and next_line.startswith(line))):
            zones.append(Zone("echo", start, position))
            expected += 1
        elif len(line) >= MIN_ECHO and line in whole and not _is_option(line, texts):
            zones.append(Zone("echo", start, position))
            expected = next((number for number, candidate in enumerate(lines, 1) if line in candidate), 0)
        else:
            expected = 0
            for match in _SENTENCE.finditer(raw):
                sentence = squeeze(match.group()) if _begins_in_prompt(match.group(), whole) else ""
                if len(sentence) >= MIN_ECHO and sentence in whole and not _is_option(sentence, texts):
                    zones.append(Zone("echo", start + match.start(), start + match.end()))
    return zones


def _is_option(line: str, option_texts: tuple[str, ...]) -> bool:
    """Whether a line is little more than an option's text, perhaps with others in it."""
    found = [option for option in option_texts if option in line]
    longest = max(found, key=len, default="")
    return bool(found) and len(line) <= len(longest) + 12 and all(option in longest for option in found)


def _begins_in_prompt(text: str, prompt: str) -> bool:
    """Whether the first words of a text are in the prompt, as in every echo."""
    return squeeze(" ".join(text.split(None, 3)[:3])) in prompt
