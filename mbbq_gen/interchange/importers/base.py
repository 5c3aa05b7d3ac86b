"""Reads files that anybody may have written: bounded in size, never unpacked to disk, every fault one line.

Nothing here trusts what a file says of itself: the size of a zip member is what comes out of it, not what its header
claims, and a member's name is only ever compared, never opened as a path.
"""

from __future__ import annotations

import json
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, get_args

from mbbq_gen.core.errors import DataError, MissingExtraError, UsageError
from mbbq_gen.core.records import ContinuationScore, FrozenModel, ImportSource, Message, NonBlank, Response, Usage
from mbbq_gen.core.tables import MEGABYTE, UnreadableError, json_value, opened

MOST_JSON: Final = 1024 * MEGABYTE
"""The largest JSON file that is read whole."""
MOST_MEMBER: Final = 128 * MEGABYTE
"""The most that may come out of one member of a zip file."""
MOST_MEMBERS: Final = 2_000_000
"""The most members of a zip file."""
_CHUNK: Final = MEGABYTE
_ZSTANDARD: Final = 93
"""The method number of Zstandard in zip files; Python knows it from 3.14 on."""
_LOCAL_HEADER: Final = struct.Struct("<4s5H3I2H")
_ENCRYPTED: Final = 0x1


def require_file(path: Path, what: str) -> None:
    """Makes sure that there is a file.

    Raises:
        UsageError: where there is none.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give {what}")


def read_json(path: Path) -> Any:
    """What a JSON file holds.

    Raises:
        UsageError: where it can't be opened.
        DataError: where it is too large or no JSON.
    """
    with opened(path) as stream:
        text = stream.read(MOST_JSON + 1)
    if len(text) > MOST_JSON:
        raise DataError(f"{path}: larger than {MOST_JSON // MEGABYTE:,} MB; split it")
    try:
        return json_value(text)
    except UnreadableError as error:
        raise DataError(f"{path}: {error}") from error


class Archive:
    """The members of a zip file, read one by one."""

    def __init__(self, path: Path) -> None:
        """Opens it.

        Raises:
            UsageError: where it can't be opened.
            DataError: where it is no zip file, is damaged or cut off, or has too many members.
        """
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, zlib.error, struct.error, ValueError, EOFError, NotImplementedError) as error:
            raise DataError(f"{path}: not a zip file, or cut off: {error}") from error
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        members = self._zip.infolist()
        if len(members) > MOST_MEMBERS:
            self._zip.close()
            raise DataError(f"{path}: {len(members):,} members; at most {MOST_MEMBERS:,} are read")
        self._members = {member.filename: member for member in members}

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The names of the members, in file order."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """What a member holds.

        Raises:
            UnreadableError: where it is damaged, encrypted, or more comes out of it than is allowed.
            MissingExtraError: where it is compressed with Zstandard and nothing that reads that is installed.
        """
        member = self._members[name]
        if member.flag_bits & _ENCRYPTED:
            raise UnreadableError("encrypted")
        try:
            if member.compress_type == _ZSTANDARD:
                return self._read_zstandard(member)
            with self._zip.open(member) as stream:
                return _bounded(stream)
        except (zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, ValueError) as error:
            raise UnreadableError(f"damaged: {error}") from error
        except (NotImplementedError, RuntimeError) as error:
            raise UnreadableError(str(error)) from error

    def _read_zstandard(self, member: zipfile.ZipInfo) -> bytes:
        """The same for a method that Python's own zipfile does not know before 3.14."""
        try:
            import zstandard
        except ImportError as error:
            raise MissingExtraError(
                "this log is compressed with Zstandard; install what reads it: pip install zstandard"
                " (it comes with 'mbbq-gen[inspect]')"
            ) from error
        with self.path.open("rb") as stream:
            stream.seek(member.header_offset)
            header = stream.read(_LOCAL_HEADER.size)
            signature, *_, name_length, extra_length = _LOCAL_HEADER.unpack(header)
            if signature != b"PK\x03\x04":
                raise UnreadableError("damaged: no file at the position in the directory")
            stream.seek(name_length + extra_length, 1)
            packed = stream.read(min(member.compress_size, MOST_MEMBER))
        try:
            decompressor = zstandard.ZstdDecompressor(max_window_size=1 << 27)
            # Several frames may follow each other in one member.
            with decompressor.stream_reader(packed, read_across_frames=True) as unpacked:
                whole = _bounded(unpacked)
        except zstandard.ZstdError as error:
            raise UnreadableError(f"damaged: {error}") from error
        if zlib.crc32(whole) != member.CRC:
            raise UnreadableError("damaged: wrong checksum")
        return whole


def _bounded(stream: IO[bytes]) -> bytes:
    """All that comes out of a stream.

    Raises:
        UnreadableError: where it is more than MOST_MEMBER; no more than that is ever held.
    """
    chunks, size = [], 0
    while chunk := stream.read(_CHUNK):
        size += len(chunk)
        if size > MOST_MEMBER:
            raise UnreadableError(f"more than {MOST_MEMBER // MEGABYTE} MB after decompression")
        chunks.append(chunk)
    return b"".join(chunks)


Tool = Literal["lm-eval", "inspect", "helm", "lighteval", "euroeval", "csv"]
TOOLS: tuple[Tool, ...] = get_args(Tool)

Reason = Literal[
    "parse_error",
    "loglikelihood_only",
    "unparsed",
    "duplicate",
    "unmatched_question",
    "options_mismatch",
    "duplicate_options",
    "ambiguous_match",
]
REASONS: Mapping[Reason, str] = {
    "parse_error": "the row can't be read",
    "loglikelihood_only": "scored by likelihood: the model wrote nothing, and the row does not tell of which answers",
    "unparsed": "neither an answer nor an error is recorded",
    "duplicate": "the same answer again",
    "unmatched_question": "no question of the benchmark has this context and question",
    "options_mismatch": "the question is known, but not with these options",
    "duplicate_options": "two of the options read alike: their order is unknown",
    "ambiguous_match": "several questions of the benchmark have these texts",
}
"""Why a row is not imported → in words."""


FinishReason = Literal["stop", "length", "content_filter", "other"]


class ImportedResponse(FrozenModel):
    """What the model wrote, or why it wrote nothing: `Response` before it has a request."""

    text: str | None = None
    finish_reason: FinishReason | None = None
    provider_finish_reason: str | None = None
    error: str | None = None
    model: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    latency_s: float | None = None


class ImportedLoglikelihood(FrozenModel):
    """How likely the model found one of the answers that a task compares."""

    text: NonBlank
    """The answer, without blanks at its edges."""
    logprob: float | None
    """Sum of the natural logarithms of its tokens' probabilities; None: minus infinity, below all others."""
    unconditional_logprob: float | None = None
    """The same without the question; None where it was not requested."""


@dataclass(frozen=True, kw_only=True)
class ImportedAnswer:
    """One answer of another program's log."""

    origin: ImportSource
    place: str
    """Where it stands, for messages: `file:row`."""
    words: ImportedResponse
    likelihoods: tuple[ImportedLoglikelihood, ...] = ()
    """What was compared, where the model wrote nothing."""
    messages: tuple[Message, ...] = ()
    """What was sent; none where the file does not say."""
    context: str | None = None
    """The context where the file has it in a field of its own."""
    question: str | None = None
    """The question likewise."""
    text: str | None = None
    """Context and question in one text, where the file has them so and beside what was sent."""
    options: tuple[str, ...] = ()
    """The options in a list of their own, in the order in which the file has them."""
    labels: tuple[str, ...] = ()
    """The labels of `options`, where the file has them."""
    hints: frozenset[str] = frozenset()
    """Ids and the like, as text: they tell questions of equal texts apart."""
    instance: str | None = None
    """Key or id of our instance, where the file has it."""
    variant: str = "imported"
    """Name of the prompt variant."""

    @property
    def origin_key(self) -> str:
        """What two rows share that are the same answer."""
        return f"{self.origin.file}\n{self.origin.id}\n{self.origin.repeat}\n{self.variant}"


@dataclass(frozen=True)
class SkippedRow:
    """A row that gives no answer of the run."""

    reason: Reason
    place: str
    detail: str = ""


@dataclass(frozen=True)
class Source:
    """A log that is ready to be read."""

    tool: Tool
    path: Path
    rows: Iterator[ImportedAnswer | SkippedRow]
    """One by one, in file order."""
    model: str | None = None
    """The model's name, if the log says it; else that of the first row that does."""
    files: tuple[Path, ...] = ()
    """What is read."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What the log says about the model's settings."""
    notes: tuple[str, ...] = ()
    """What the user should know before the rows are read."""


def response_of(
    words: ImportedResponse, origin: ImportSource, request_key: str, scores: tuple[ContinuationScore, ...] | None = None
) -> Response:
    """The words, or the likelihoods, as the answer to a request."""
    return Response(
        request_key=request_key,
        usage=Usage(input_tokens=words.input_tokens, output_tokens=words.output_tokens),
        import_source=origin,
        scores=scores,
        **words.model_dump(exclude={"input_tokens", "output_tokens"}),
    )


_ROLES: Final[dict[str, Literal["system", "user", "assistant"]]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "human": "user",
    "bot": "assistant",
}
"""The role of a turn as programs write it, in small letters → ours; the last two are OpenCompass's."""
_LONGEST_HINT: Final = 200
_MOST_HINTS: Final = 200
_LONGEST_NAME: Final = 500


def table(value: Any, where: str) -> Mapping[str, Any]:
    """The object at a place; nothing is an empty one.

    Raises:
        UnreadableError: where it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UnreadableError(f"{where}: an object is needed, found {type(value).__name__}")
    return value


def array(value: Any, where: str) -> Sequence[Any]:
    """The list at a place; nothing is an empty one; raises as `table`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UnreadableError(f"{where}: a list is needed, found {type(value).__name__}")
    return value


def text(value: Any, where: str) -> str | None:
    """The text at a place, which can be stored; None where there is none.

    Raises:
        UnreadableError: where it is something else.
    """
    if value is None or isinstance(value, str):
        return value
    raise UnreadableError(f"{where}: a text is needed, found {type(value).__name__}")


def name(value: Any, default: str = "") -> str:
    """An id or a name as text that can be stored and shown on one line; the default where there is none."""
    if value is None or value == "":
        return default
    shown = value if isinstance(value, str) else json.dumps(value, default=str)
    line = " ".join(shown.encode("utf-8", "replace").decode("utf-8").split())
    return line[:_LONGEST_NAME] or default


def number(value: Any) -> int | None:
    """A count of tokens and the like; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def seconds(value: Any) -> float | None:
    """A duration; None where it is none."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if good else None


def log_probability(value: Any) -> float | None:
    """A log-probability, minus infinity too; None where it is none."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if number < math.inf else None


def finite(number: float | None) -> float | None:
    """The number; None where it is infinite or there is none."""
    return None if number is None or math.isinf(number) else number


def texts(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts; raises as `text`."""
    return tuple(text(entry, f"{where}[{place}]") or "" for place, entry in enumerate(array(value, where)))


def messages(value: Any, where: str) -> tuple[Message, ...]:
    """The turns of a conversation as services take them; tool calls and the like are passed over."""
    found = []
    for place, entry in enumerate(array(value, where)):
        turn = table(entry, f"{where}[{place}]")
        role = _ROLES.get(str(turn.get("role")).lower())
        if role is not None:
            said = turn.get("content", turn.get("prompt"))
            found.append(Message(role=role, content=content(said, f"{where}[{place}].content").said))
    return tuple(found)


class Content(NamedTuple):
    """What a message holds: a text, or parts."""

    said: str
    reasoning: str | None = None
    """Where it is separate."""


def content(value: Any, where: str) -> Content:
    """The words of a message, whose content is a text or a list of parts; raises as `text`."""
    if value is None or isinstance(value, str):
        return Content(value or "")
    said, reasoning = [], []
    for place, entry in enumerate(array(value, where)):
        part = table(entry, f"{where}[{place}]")
        if part.get("type") == "reasoning":
            reasoning.append(text(part.get("reasoning"), f"{where}[{place}].reasoning") or "")
        elif isinstance(part.get("text"), str):
            said.append(part["text"])
    return Content("".join(said), "\n".join(reasoning) or None)


def sent(value: Any, where: str, parse: Callable[[str], Any] = json_value) -> tuple[Message, ...]:
    """What was sent: messages, as a list or as a text that `parse` understands, or any other text as one message."""
    if isinstance(value, list):
        return messages(value, where)
    said = text(value, where)
    if said and said.lstrip().startswith("[{"):
        try:
            turns = messages(parse(said), where)
        except (UnreadableError, ValueError, SyntaxError, MemoryError, RecursionError):
            turns = ()
        if turns:
            return turns
    return (Message(role="user", content=said),) if said else ()


def finish(value: Any, known: Mapping[str, FinishReason]) -> FinishReason | None:
    """Why a program says that a response ended, in our words."""
    return known.get(value, "other") if isinstance(value, str) else None


def latest(files: Sequence[tuple[str, str, Path]]) -> tuple[list[Path], int]:
    """Of tasks, dates and paths: the latest file of each task, and how many older ones there are."""
    found: dict[str, tuple[str, Path]] = {}
    for task, date, path in files:
        found[task] = max(found.get(task, ("", path)), (date, path))
    return [path for _, path in found.values()], len(files) - len(found)


def hints(*values: Any) -> frozenset[str]:
    """Every short text and number in some values, as text: what may tell one question from another."""
    found: set[str] = set()
    waiting = list(values)
    while waiting and len(found) < _MOST_HINTS:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= _LONGEST_HINT:
            found.add(str(value))
    return frozenset(found)


def first_line(message: str, limit: int = 300) -> str:
    """The first line of what a program said, cut to a length."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def joined(parts: Iterable[str | None]) -> str:
    """The parts that are there, a line each."""
    return "\n".join(part for part in parts if part)
