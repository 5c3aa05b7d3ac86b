"""Shared code of importers: imported answers, access to fields, and safe reading of untrusted files.

The size of a zip member is measured while it is decompressed, not taken from its header, and member names are never
used as paths. A record that can't be read is one skipped row; every error is one line.
"""

from __future__ import annotations

import copy
import json
import math
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, NamedTuple, TypeVar, get_args

from mbbq_gen.benchmarks.own_file import look_up
from mbbq_gen.core.errors import DataError, MissingExtraError, UsageError
from mbbq_gen.core.records import Message, Response
from mbbq_gen.core.tables import MEGABYTE, UnreadableError, json_object, json_value, opened

MOST_JSON: Final = 1024 * MEGABYTE
"""Maximum bytes of a JSON file that is read at once."""
MOST_MEMBER: Final = 128 * MEGABYTE
"""Maximum decompressed bytes of a member of a zip file."""
_ZSTANDARD: Final = 93
"""Compression method of Zstandard in zip files; supported by Python from 3.14 on."""
_ENCRYPTED: Final = 0x1


# --- files -----------------------------------------------------------------------------------------------------------


def require_file(path: Path, what: str) -> None:
    """Raises UsageError if there is no file."""
    if not path.is_file():
        raise UsageError(f"{path}: no such file; give {what}")


def read_json(path: Path) -> Any:
    """The value of a JSON file; UsageError if it can't be opened, DataError if it is wrong."""
    with opened(path) as stream:
        text = stream.read(MOST_JSON + 1)
    if len(text) > MOST_JSON:
        raise DataError(f"{path}: larger than {MOST_JSON // MEGABYTE:,} MB; split it")
    try:
        return json_value(text)
    except UnreadableError as error:
        raise DataError(f"{path}: {error}") from error


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The object of a JSON file; raises as `read_json`, and DataError for other values."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise DataError(f"{path}: a JSON object is needed; is this {what}?")
    return value


def open_archive(path: Path) -> zipfile.ZipFile:
    """Opens a zip file; UsageError if it can't be read, DataError if it is damaged."""
    try:
        return zipfile.ZipFile(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except Exception as error:  # damaged files raise many kinds of errors
        raise DataError(f"{path}: not a zip file, or cut off: {error}") from error


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """The content of a member of a zip file.

    Raises:
        UnreadableError: It is damaged, encrypted or too large.
        MissingExtraError: It is compressed with Zstandard, and the package zstandard is missing.
    """
    member = archive.getinfo(name)
    if member.flag_bits & _ENCRYPTED:
        raise UnreadableError("encrypted")
    try:
        if member.compress_type != _ZSTANDARD:
            with archive.open(member) as stream:
                return _bounded(stream)
        packed = copy.copy(member)  # reads the compressed bytes; the checksum is that of the content
        packed.compress_type, packed.file_size = zipfile.ZIP_STORED, member.compress_size
        del packed.CRC
        from zstandard import ZstdDecompressor

        with (
            archive.open(packed) as stream,
            ZstdDecompressor(max_window_size=1 << 27).stream_reader(stream, read_across_frames=True) as unpacked,
        ):
            whole = _bounded(unpacked)
        if zlib.crc32(whole) != member.CRC:
            raise UnreadableError("damaged: wrong checksum")
        return whole
    except ImportError as error:
        raise MissingExtraError(
            "this log is compressed with Zstandard; install what reads it: pip install zstandard"
            " (it comes with 'mbbq-gen[inspect]')"
        ) from error
    except UnreadableError:
        raise
    except Exception as error:  # as above
        raise UnreadableError(f"damaged: {error}") from error


def _bounded(stream: IO[bytes]) -> bytes:
    """The content of a stream; UnreadableError once it is larger than MOST_MEMBER."""
    chunks, size = [], 0
    while chunk := stream.read(MEGABYTE):
        size += len(chunk)
        if size > MOST_MEMBER:
            raise UnreadableError(f"more than {MOST_MEMBER // MEGABYTE} MB after decompression")
        chunks.append(chunk)
    return b"".join(chunks)


def latest_files(
    path: Path, names: re.Pattern[str], glob: str, model_of: Callable[[Path], Path], how: str
) -> tuple[list[Path], tuple[str, ...]]:
    """The latest file of each task in a folder, or the file itself; and notes for the user.

    Args:
        names: Pattern of file names with the groups `task` and `date`.
        glob: The same as a glob pattern.
        model_of: Gets a file and returns the folder of its model.
        how: How the program writes such files, for messages.

    Raises:
        UsageError: There are no files, or files of several models.
    """
    if not path.is_dir():
        require_file(path, f"a {glob}, or its folder; {how}")
        return [path], ()
    matches = [(names.fullmatch(file.name), file) for file in sorted(path.rglob(glob))]
    found = [(match["task"], match["date"] or "", file) for match, file in matches if match is not None]
    if not found:
        raise UsageError(f"{path}: no {glob} in it; {how}")
    if len(models := {model_of(file) for *_, file in found}) > 1:
        listed = ", ".join(sorted(model.name for model in models))
        raise UsageError(f"{path}: holds the answers of several models ({listed}); name one folder")
    newest: dict[str, tuple[str, Path]] = {}
    for task, date, file in found:
        newest[task] = max(newest.get(task, ("", file)), (date, file))
    n_older = len(found) - len(newest)
    notes = (f"{path}: {n_older} older files of the same tasks are left out",) if n_older else ()
    return [file for _, file in newest.values()], notes


# --- answers ---------------------------------------------------------------------------------------------------------

Tool = Literal["lm-eval", "inspect", "helm", "lighteval", "csv"]
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
"""Reason why a row is not imported → its description."""
FinishReason = Literal["stop", "length", "content_filter", "other"]


class ImportedLoglikelihood(NamedTuple):
    """The loglikelihood of one of the answers that a task compares."""

    text: str
    """The answer, stripped."""
    logprob: float | None
    """Sum of the natural log-probabilities of its tokens; None: minus infinity."""
    unconditional_logprob: float | None = None
    """The same without the question; None if not requested."""


@dataclass(frozen=True, kw_only=True)
class ImportedAnswer:
    """One answer in a log."""

    id: str
    """Id of the row, or its number if it has none."""
    task: str | None = None
    repeat: int = 1
    """Number of the answer among several to the same question, from 1."""
    response: Response | None = None
    """The response or the error; key and source are set later. None for loglikelihoods."""
    likelihoods: tuple[ImportedLoglikelihood, ...] = ()
    messages: tuple[Message, ...] = ()
    """The messages sent; empty if the log does not have them."""
    context: str | None = None
    question: str | None = None
    """Context and question, if the log has a field for each."""
    text: str | None = None
    """Context and question as one text, if the log has it besides the messages."""
    options: tuple[str, ...] = ()
    """The options, if the log lists them, in its order."""
    labels: tuple[str, ...] = ()
    """The labels of `options`, if the log has them."""
    hints: frozenset[str] = frozenset()
    """Ids and similar values, as text, to distinguish questions with equal texts."""
    instance: str | None = None
    """Key or id of our instance, if the log has it."""
    variant: str = "imported"
    """Name of the prompt variant."""


class SkippedRow(NamedTuple):
    """The reason why a row is not imported."""

    reason: Reason
    detail: str = ""


class Place(NamedTuple):
    """The place of a row in a log."""

    file: str
    row: str

    def __str__(self) -> str:
        """File and row, for messages."""
        return f"{self.file}:{self.row}"


Row = ImportedAnswer | SkippedRow


@dataclass(frozen=True)
class Source:
    """An opened log."""

    tool: Tool
    path: Path
    rows: Iterator[tuple[Place, Row]]
    """In file order, read one by one."""
    model: str | None = None
    """The model's name in the log; None: taken from the first row that has one."""
    files: tuple[Path, ...] = ()
    """The files that the log consists of."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """The model's settings in the log."""
    notes: tuple[str, ...] = ()
    """Messages for the user."""


def read_rows(
    file: str, records: Iterable[tuple[object, Any]], read: Callable[[Mapping[str, Any], str], Iterable[Row]]
) -> Iterator[tuple[Place, Row]]:
    """The answers in numbered records, each an object, JSON, or an UnreadableError."""
    for number, record in records:
        place = Place(file, str(number))
        try:
            if isinstance(record, UnreadableError):
                raise record
            value = json_object(record) if isinstance(record, bytes) else record
            if not isinstance(value, Mapping):
                raise UnreadableError(f"an object is needed, found {type(value).__name__}")
            yield from ((place, row) for row in read(value, place.row))
        except UnreadableError as error:
            yield place, SkippedRow("parse_error", str(error))


def response(**fields: Any) -> Response:
    """An imported response or error, with the fields of `Response`."""
    return Response(request_key="imported", **fields)


# --- fields ----------------------------------------------------------------------------------------------------------

_Kind = TypeVar("_Kind", str, list[Any], dict[str, Any])
_KINDS: Final[dict[type, str]] = {str: "a text", list: "a list", dict: "an object"}
_LONGEST_HINT: Final = 200
_MOST_HINTS: Final = 200
_LONGEST_NAME: Final = 500


def find(record: Any, path: str) -> Any:
    """The value at a path such as `output.choices.0.text`; None if there is none."""
    return look_up(record, path)[1] if isinstance(record, Mapping) else None


def take(record: Any, path: str, kind: type[_Kind]) -> _Kind:
    """The value at a path, empty if there is none; UnreadableError for another type."""
    return _checked(find(record, path), path, kind)


def _checked(value: Any, path: str, kind: type[_Kind]) -> _Kind:
    if value is not None and not isinstance(value, kind):
        raise UnreadableError(f"{path}: {_KINDS[kind]} is needed, found {type(value).__name__}")
    return kind() if value is None else value


def text(record: Any, path: str) -> str | None:
    """The text at a path, None if there is none; raises as `take`."""
    return None if find(record, path) is None else take(record, path, str)


def texts(record: Any, path: str) -> tuple[str, ...]:
    """The list of texts at a path, with null as empty text; raises as `take`."""
    return tuple(_checked(entry, f"{path}[{place}]", str) for place, entry in enumerate(take(record, path, list)))


def name(value: Any, default: str = "") -> str:
    """An id or a name as one line of text; the default if it is empty."""
    if value is None or value == "":
        return default
    shown = value if isinstance(value, str) else json.dumps(value, default=str)
    line = " ".join(shown.encode("utf-8", "replace").decode("utf-8").split())
    return line[:_LONGEST_NAME] or default


def seconds(value: Any) -> float | None:
    """A duration; None for other values."""
    is_valid = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if is_valid else None


def finish(value: Any, known: Mapping[str, FinishReason]) -> FinishReason | None:
    """Our finish reason for that of a program, by its table `known`."""
    return known.get(value, "other") if isinstance(value, str) else None


def hints(*values: Any) -> frozenset[str]:
    """All short texts and numbers in nested values, as text."""
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


def failure(message: Any, limit: int = 300) -> str:
    """The first line of an error message, cut to a length."""
    lines = message.splitlines() if isinstance(message, str) else []
    line = next((line.strip() for line in lines if line.strip()), "failed for a reason that is not recorded")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def likelihoods(
    answers: Sequence[Any], numbers: Sequence[Any], alone: Mapping[str, Any]
) -> tuple[ImportedLoglikelihood, ...]:
    """The loglikelihood of each answer (`alone`: without the question); empty if a value is wrong."""
    found = [_log_probability(number) for number in numbers]
    are_texts = all(isinstance(answer, str) and answer.strip() for answer in answers)
    if len(answers) != len(found) or None in found or not are_texts:
        return ()
    return tuple(
        ImportedLoglikelihood(answer.strip(), _finite(number), _finite(_log_probability(alone.get(answer))))
        for answer, number in zip(answers, found, strict=True)
    )


def _log_probability(value: Any) -> float | None:
    """A log-probability, including minus infinity; None for other values."""
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (ValueError, TypeError, OverflowError):
        return None
    return number if number < math.inf else None


def _finite(number: float | None) -> float | None:
    return None if number is None or math.isinf(number) else number


# --- messages --------------------------------------------------------------------------------------------------------

_ROLES: Final[dict[str, Literal["system", "user", "assistant"]]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
    "human": "user",
    "bot": "assistant",
}
"""The role of a turn, in lower case → ours; the last two are those of OpenCompass."""


def messages(record: Any, path: str) -> tuple[Message, ...]:
    """The turns of a conversation in the format of OpenAI; turns with other roles are skipped."""
    found = []
    for place, turn in enumerate(take(record, path, list)):
        role = _ROLES.get(str(find(_checked(turn, f"{path}[{place}]", dict), "role")).lower())
        if role is not None:
            words, _ = content(turn, "content" if "content" in turn else "prompt")
            found.append(Message(role=role, content=words))
    return tuple(found)


def content(record: Any, path: str) -> tuple[str, str | None]:
    """Text and reasoning of a message, whose content is a text or a list of parts."""
    if isinstance(find(record, path), str | None):
        return take(record, path, str), None
    parts = [part for part in take(record, path, list) if isinstance(part, Mapping)]
    words = [part["text"] for part in parts if part.get("type") != "reasoning" and isinstance(part.get("text"), str)]
    reasoning = [text(part, "reasoning") or "" for part in parts if part.get("type") == "reasoning"]
    return "".join(words), "\n".join(reasoning) or None


def sent(record: Any, path: str) -> tuple[Message, ...]:
    """The messages at a path: a list, a list as JSON, or any other text as one message."""
    if isinstance(find(record, path), list):
        return messages(record, path)
    prompt = text(record, path)
    if prompt and prompt.lstrip().startswith("[{"):
        try:
            turns = messages({path: json_value(prompt)}, path)
        except UnreadableError:
            turns = ()
        if turns:
            return turns
    return (Message(role="user", content=prompt),) if prompt else ()
