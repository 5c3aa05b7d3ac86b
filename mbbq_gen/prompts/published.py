"""The prompts of a benchmark's authors, read from the user's copy of their release.

None of them is part of this project. What each release holds, and what the authors' code makes of it:

* **MBBQ** (`answer_detection.py`): Python literals, parsed as literals and never run. `prompt_sets` (number → list) or
  `prompts` (list) are the English prompts, `trans_prompt_dict` has language → English prompt → translation.
  `mbbq.py` sends `wording.strip().format(context, question, ans0, ans1, ans2)`. Ids: published_1 … in English order.
* **KoBBQ** (`evaluation/0_evaluation_prompts.tsv`): `1_preprocess.py` does not fill the column `prompt` (whose
  third row has {a} {B} {C}) but joins the pieces: instruction, two line ends, then context, question, a, b, c, each
  before its text and with a line end, then answer. The prompt's own `unknown` takes the place of the unknown option.
  Ids: published_ and the `prompt_id`.
* **BharatBBQ** (`zero-shot.md`, `few-shot-English_instruction.md`, `few-shot_Target_instruction.md`): a fenced block a
  prompt, under a heading that names the language at its end, with {ctx} {qn} {a} {b} {c}. No code that sends them is
  published; the block is taken as it stands. Ids: published_zero_shot_english, published_zero_shot,
  published_few_shot_english, published_few_shot; those with `english` have an English instruction.
* **EsBBQ, CaBBQ**: the release has none. (The paper gives context and question and compares how likely each answer is;
  the options are not shown.) Should a copy's README hold fenced blocks with {context} {question} {a} {b} {c}, they are
  taken, as published_1 ….

The text is what the authors would send, byte for byte, once our `{context} {option_a} …` are filled: labels are the
authors' own and can't be chosen. What differs: a message begins and ends without blanks; and, recorded as data issues
when the questions were read, options have lost blanks at their edges and texts their control characters.
"""

from __future__ import annotations

import ast
import re
import string
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from mbbq_gen.benchmarks.readers.bharatbbq import LANGUAGES
from mbbq_gen.benchmarks.rows import RowLocation, read_table
from mbbq_gen.core.errors import DataError, UsageError, describe_fault
from mbbq_gen.core.option_display import LABEL_STYLES
from mbbq_gen.core.records import NonBlank
from mbbq_gen.languages.prompt_pack import PromptVariant

BENCHMARKS: Final = ("mbbq", "kobbq", "kobbq_all", "bharatbbq", "esbbq", "cabbq")
"""Benchmarks whose releases hold prompts, or may."""
SLOTS: Final = ("context", "question", "option_a", "option_b", "option_c")
"""Our placeholders, in the order of the authors' positional ones."""


@dataclass(frozen=True)
class PublishedPrompt:
    """A prompt of the authors, with what is fixed along with it."""

    variant: PromptVariant
    label_style: str
    """The labels in the authors' text, as one of our label styles."""
    source: Path
    """The file that it was read from."""
    unknown_text: str | None = None
    """How the unknown option is worded with it; None: as in the data."""


class _Found(NamedTuple):
    """A prompt as it stands in a file."""

    id: str
    text: str
    """With `{}` or named placeholders, as `str.format` takes them."""
    unknown_text: str | None = None


def read_published_prompts(benchmark: str, folder: Path | None, language: str) -> tuple[PublishedPrompt, ...]:
    """The authors' prompts in a language, in their order.

    Args:
        folder: the user's copy of its release; None where there is none.

    Raises:
        UsageError: where the release, this copy of it, or the language has none.
        DataError: where a file does not hold what it should; file, and row or name.
    """
    if benchmark not in BENCHMARKS:
        raise UsageError(f"{benchmark}: its release holds no prompts; use --prompt-source builtin")
    if folder is None:
        raise UsageError(
            f"{benchmark}: the published prompts are read from a copy of its release; get one with"
            f" `mbbq-gen data download {benchmark}`, or give --data-dir DIR"
        )
    if not folder.is_dir():
        raise UsageError(f"{benchmark}: no folder {folder}; give the benchmark's folder with --data-dir DIR")
    return _READERS[benchmark](folder, language)


# --- MBBQ -------------------------------------------------------------------------------------------------------------

_MBBQ_FILE: Final = "answer_detection.py"
_MBBQ_TRANSLATIONS: Final = "trans_prompt_dict"
_TRANSLATIONS: Final = TypeAdapter(dict[str, dict[str, str]])
"""Language → English prompt → translation."""


def _read_mbbq(folder: Path, language: str) -> tuple[PublishedPrompt, ...]:
    """MBBQ's five prompts."""
    (path,) = _find(folder, "mbbq", _MBBQ_FILE)
    literals = _python_literals(path, {"prompts", "prompt_sets", _MBBQ_TRANSLATIONS})
    found = literals.get("prompts")
    sets = literals.get("prompt_sets")
    if found is None and isinstance(sets, dict):
        found = [text for texts in sets.values() for text in (texts if isinstance(texts, list) else [None])]
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise DataError(f"{path}: no list of prompts under the name prompts or prompt_sets; get the file again")
    try:
        translations = _TRANSLATIONS.validate_python(literals.get(_MBBQ_TRANSLATIONS, {}), strict=True)
    except ValidationError as error:
        raise DataError(f"{path}: {_MBBQ_TRANSLATIONS}: not language → English prompt → translation") from error
    if language not in ("en", *translations):
        raise _no_language("mbbq", language, ["en", *translations])
    known = {text: text for text in found} if language == "en" else translations[language]
    missing = [text for text in found if text not in known]
    if missing:
        raise DataError(f"{path}: {_MBBQ_TRANSLATIONS}[{language!r}]: no translation of {missing[0][:60]!r}")
    texts = [known[text] for text in found]
    return tuple(_variant(_Found(f"published_{n}", text.strip()), path) for n, text in enumerate(texts, start=1))


def _python_literals(path: Path, names: set[str]) -> dict[str, Any]:
    """Name → value, for the names that a Python file gives a literal at its top level; nothing of it is run."""
    text = _read_text(path)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f"{path}:{line}" if line else str(path)
        raise DataError(f"{where}: not Python ({error.args[0]}); get the file again") from error
    found: dict[str, Any] = {}
    for node in tree.body:
        if not isinstance(node, ast.Assign):
            continue
        for name in {target.id for target in node.targets if isinstance(target, ast.Name)} & names:
            try:
                found[name] = ast.literal_eval(node.value)
            except ValueError as error:
                raise RowLocation(path, node.lineno).error("not a literal; code is never run", name) from error
    return found


# --- KoBBQ ------------------------------------------------------------------------------------------------------------

_KOBBQ_FILE: Final = "evaluation/0_evaluation_prompts.tsv"


class _KobbqRow(BaseModel):
    """A prompt in pieces."""

    model_config = ConfigDict(frozen=True)

    prompt_id: NonBlank
    instruction: NonBlank
    context: str
    question: str
    a: str
    b: str
    c: str
    answer: str
    unknown: NonBlank


def _read_kobbq(folder: Path, language: str) -> tuple[PublishedPrompt, ...]:
    """KoBBQ's five prompts, put together as `make_prefix` and `make_prompt` of its `1_preprocess.py` do."""
    (path,) = _find(folder, "kobbq", _KOBBQ_FILE)
    if language != "ko":
        raise _no_language("kobbq", language, ["ko"])
    found = []
    for row in [row for _, row in read_table(path, _KobbqRow, delimiter="\t")]:
        pieces = (row.context, row.question, row.a, row.b, row.c)
        filled = "".join(f"{_escaped(piece)}{{}}\n" for piece in pieces)
        text = f"{_escaped(row.instruction)}\n\n{filled}{_escaped(row.answer)}"
        found.append(_variant(_Found(f"published_{row.prompt_id}", text, row.unknown), path))
    return tuple(found)


def _escaped(text: str) -> str:
    """A text as `str.format` takes it."""
    return text.replace("{", "{{").replace("}", "}}")


# --- Markdown: BharatBBQ, and the READMEs of EsBBQ and CaBBQ ----------------------------------------------------------

_BLOCK: Final = re.compile(
    r"^(?P<heading>#{1,6}[^\n]*)\n(?:(?!#|```)[^\n]*\n)*```[^\n]*\n(?P<text>.*?)\n```[^\S\n]*$", re.M | re.S
)
_NAMED_LANGUAGE: Final = re.compile(r"\(\s*([A-Za-z]+)\s*\)\s*$")
_BHARATBBQ_FILES: Final = {
    "zero-shot.md": "zero_shot",
    "few-shot-English_instruction.md": "few_shot",
    "few-shot_Target_instruction.md": "few_shot",
}
_BHARATBBQ_LANGUAGES: Final = {name.lower(): code for code, name in LANGUAGES.items()}


def _read_bharatbbq(folder: Path, language: str) -> tuple[PublishedPrompt, ...]:
    """BharatBBQ's prompts for questions in a language; which of its files are there is what is read."""
    present = _find(folder, "bharatbbq", *_BHARATBBQ_FILES)
    if language not in _BHARATBBQ_LANGUAGES.values():
        raise _no_language("bharatbbq", language, _BHARATBBQ_LANGUAGES.values())
    variants: list[PublishedPrompt] = []
    for path in present:
        kind = _BHARATBBQ_FILES[path.name]
        for heading, text in _blocks(path):
            named = _NAMED_LANGUAGE.search(heading)
            if named is None or _BHARATBBQ_LANGUAGES.get(named[1].lower()) == language:
                english = "english instruction" in heading.lower()
                variants.append(_variant(_Found(f"published_{kind}{'_english' if english else ''}", text), path))
    return tuple(variants)


def _readme_reader(benchmark: str, own: str) -> Callable[[Path, str], tuple[PublishedPrompt, ...]]:
    """A reader of prompts that a README may hold."""

    def read(folder: Path, language: str) -> tuple[PublishedPrompt, ...]:
        if language != own:
            raise _no_language(benchmark, language, [own])
        path = _place_of(folder, "README.md")
        found = _blocks(path) if path else []
        blocks = [text for _, text in found if all(option in text for option in ("{a}", "{b}", "{c}"))]
        if path is None or not blocks:
            raise UsageError(
                f"{benchmark}: this copy ({folder}) holds no prompt that shows the options (the paper compares how"
                " likely each answer is, without showing them); use --prompt-source builtin"
            )
        return tuple(_variant(_Found(f"published_{n}", text), path) for n, text in enumerate(blocks, start=1))

    return read


def _blocks(path: Path) -> list[tuple[str, str]]:
    """(heading, text) of each fenced block that comes first under a heading."""
    text = _read_text(path).replace("\r\n", "\n")
    return [(match["heading"], match["text"]) for match in _BLOCK.finditer(text)]


# --- into our form ----------------------------------------------------------------------------------------------------

_NAMES: Final = {
    "ctx": "context", "context": "context", "qn": "question", "question": "question",
    "a": "option_a", "b": "option_b", "c": "option_c",
}  # fmt: skip
"""The authors' named placeholders → ours."""


def _variant(found: _Found, path: Path) -> PublishedPrompt:
    """A prompt in our form: named placeholders, and `{label_a}` where the authors' label stands.

    Raises:
        DataError: where it lacks a placeholder, or labels its options in a way that we have no label style for.
    """
    pieces, slots = _parse(found, path)
    style = _label_style(pieces, slots)
    if style is None:
        known = ", ".join(LABEL_STYLES)
        raise DataError(f"{path}: {found.id}: the options have no labels before them that are one of {known}")
    for label, slot in zip(LABEL_STYLES[style], SLOTS[2:], strict=True):
        place = slots.index(slot)
        before, _, after = pieces[place].rpartition(label)
        pieces[place] = f"{before}{{label_{slot[-1]}}}{after}"
    text = "".join(piece + (f"{{{slot}}}" if slot else "") for piece, slot in zip(pieces, [*slots, ""], strict=True))
    try:
        variant = PromptVariant(id=found.id, kind="published", text=text)
    except ValidationError as error:
        raise DataError(f"{path}: {found.id}: {describe_fault(error, {})}") from error
    return PublishedPrompt(variant, style, path, found.unknown_text)


def _parse(found: _Found, path: Path) -> tuple[list[str], list[str]]:
    """The texts between the placeholders, one more than those, and the placeholders by our names."""
    pieces, slots, numbered = [""], [], 0
    try:
        parsed = list(string.Formatter().parse(found.text))
    except ValueError as error:
        raise DataError(f"{path}: {found.id}: not a text with placeholders: {error}") from error
    for literal, name, form, conversion in parsed:
        pieces[-1] += literal
        if name is None:
            continue
        ours = _NAMES.get(name)
        if name == "" and numbered < len(SLOTS):
            ours, numbered = SLOTS[numbered], numbered + 1
        if ours is None or form or conversion:
            raise DataError(f"{path}: {found.id}: a placeholder {{{name}}} that is not known, or one too many")
        slots.append(ours)
        pieces.append("")
    missing = [slot for slot in SLOTS if slots.count(slot) != 1]
    if missing:
        raise DataError(f"{path}: {found.id}: {missing[0]} has no place, or several")
    return pieces, slots


def _label_style(pieces: Sequence[str], slots: Sequence[str]) -> str | None:
    """The label style whose labels stand before the three options; the longest labels where several fit."""
    heads = [pieces[slots.index(slot)] for slot in SLOTS[2:]]

    def ends_with(head: str, label: str) -> bool:
        """Whether a label, and not the last letter of a word, stands at the end, with blanks or marks behind it."""
        before, found, behind = head.rpartition(label)
        in_word = label[0].isalnum() and before[-1:].isalnum()
        return bool(found) and not in_word and not behind.strip(" \t\n:.)")

    for style, labels in sorted(LABEL_STYLES.items(), key=lambda entry: -len(entry[1][0])):
        if all(ends_with(head, label) for head, label in zip(heads, labels, strict=True)):
            return style
    return None


# --- files ------------------------------------------------------------------------------------------------------------


def _place_of(folder: Path, name: str) -> Path | None:
    """The file in the folder, or beside it where the folder is the release's data folder; None where there is none."""
    return next((path for path in (folder / name, folder.parent / name) if path.is_file()), None)


def _find(folder: Path, benchmark: str, *names: str) -> list[Path]:
    """The files of those names that are there; raises UsageError where none is."""
    paths = [path for name in names if (path := _place_of(folder, name)) is not None]
    if not paths:
        raise UsageError(
            f"{benchmark}: {folder} lacks {' or '.join(names)}, where the published prompts are; get the whole release"
            f" with `mbbq-gen data download {benchmark}`, or use --prompt-source builtin"
        )
    return paths


def _no_language(benchmark: str, language: str, known: Iterable[str]) -> UsageError:
    return UsageError(f"{benchmark} has no published prompt in {language!r}; it has {', '.join(known)}")


def _read_text(path: Path) -> str:
    """The text of a file, without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start + 1}; get the file again") from error


_READERS: Final[dict[str, Callable[[Path, str], tuple[PublishedPrompt, ...]]]] = {
    "mbbq": _read_mbbq,
    "kobbq": _read_kobbq,
    "kobbq_all": _read_kobbq,
    "bharatbbq": _read_bharatbbq,
    "esbbq": _readme_reader("esbbq", "es"),
    "cabbq": _readme_reader("cabbq", "ca"),
}
