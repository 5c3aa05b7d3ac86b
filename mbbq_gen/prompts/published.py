"""The prompts of a benchmark's authors, read from the user's copy of their release.

None of them is part of this project. The content of each release, and its use in the authors' code:

* **MBBQ** (`answer_detection.py`): Python literals, parsed as literals and never run. `prompt_sets` (number → list) or
  `prompts` (list) are the English prompts, `trans_prompt_dict` has language → English prompt → translation.
  `mbbq.py` sends `wording.strip().format(context, question, ans0, ans1, ans2)`. Ids: published_1 … in English order.
* **KoBBQ** (`evaluation/0_evaluation_prompts.tsv`): `1_preprocess.py` does not fill the column `prompt` (whose
  third row has {a} {B} {C}) but joins the pieces: instruction, two line ends, then context, question, a, b, c, each
  before its text and with a line end, then answer. The prompt's own `unknown` takes the place of the unknown option.
  Ids: published_ and the `prompt_id`.
* **BharatBBQ** (`zero-shot.md`, `few-shot-English_instruction.md`, `few-shot_Target_instruction.md`): one fenced block
  per prompt, under a heading that ends with the language, with {ctx} {qn} {a} {b} {c}. The code that sends them is not
  published; the block is used unchanged. Ids: published_zero_shot_english, published_zero_shot,
  published_few_shot_english, published_few_shot; those with `english` have an English instruction.

With our placeholders `{context} {option_a} …` filled, the text equals the authors' text, byte for byte; the labels are
theirs and can't be chosen. Exceptions: messages are stripped of outer spaces; and, recorded as data issues by the
reader, options are stripped of outer spaces and texts of control characters.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, TypeAdapter, ValidationError

from mbbq_gen.benchmarks.registry import find_benchmark
from mbbq_gen.benchmarks.rows import RowLocation, read_table
from mbbq_gen.core.errors import DataError, UsageError, describe_fault
from mbbq_gen.core.option_display import LABEL_STYLES
from mbbq_gen.core.records import NonBlank
from mbbq_gen.languages.packs import PLACEHOLDER
from mbbq_gen.languages.prompt_pack import PromptVariant

SLOTS: Final = ("context", "question", "option_a", "option_b", "option_c")
"""Our placeholders, in the order of the authors' positional ones."""
_NAMES: Final = {
    "ctx": "context", "context": "context", "qn": "question", "question": "question",
    "a": "option_a", "b": "option_b", "c": "option_c",
}  # fmt: skip
"""The authors' named placeholders → ours."""
_TRANSLATIONS: Final = TypeAdapter(dict[str, dict[str, str]])
_BLOCK: Final = re.compile(
    r"^(?P<heading>#{1,6}[^\n]*)\n(?:(?!#|```)[^\n]*\n)*```[^\n]*\n(?P<text>.*?)\n```[^\S\n]*$", re.M | re.S
)
"""The first fenced block after a heading."""
_NAMED_LANGUAGE: Final = re.compile(r"\(\s*([A-Za-z]+)\s*\)\s*$")


@dataclass(frozen=True)
class PublishedPrompt:
    """A prompt of the authors, with its labels and its unknown text."""

    variant: PromptVariant
    label_style: str
    """The label style of the authors' text."""
    source: Path
    unknown_text: str | None = None
    """Its text of the unknown option; None: that of the data."""


def read_published_prompts(benchmark: str, folder: Path | None, language: str) -> tuple[PublishedPrompt, ...]:
    """Reads the authors' prompts in a language, in their order, from the user's copy of the release.

    Raises:
        UsageError: if the release, this copy of it, or the language has none.
        DataError: if a file is invalid; names file, and row or name.
    """
    if benchmark not in _READERS:
        raise UsageError(f"{benchmark}: its release holds no prompts; use --prompt-source builtin")
    if folder is None:
        raise UsageError(
            f"{benchmark}: the published prompts are read from a copy of its release; get one with"
            f" `mbbq-gen data download {benchmark}`, or give --data-dir DIR"
        )
    if not folder.is_dir():
        raise UsageError(f"{benchmark}: no folder {folder}; give the benchmark's folder with --data-dir DIR")
    read, *names = _READERS[benchmark]
    # In the folder, or in its parent, if the folder is the release's data folder.
    found = (next(filter(Path.is_file, (folder / name, folder.parent / name)), None) for name in names)
    paths = [path for path in found if path is not None]
    if not paths:
        raise UsageError(
            f"{benchmark}: {folder} lacks {' or '.join(names)}, where the published prompts are; get the whole release"
            f" with `mbbq-gen data download {benchmark}`, or use --prompt-source builtin"
        )
    return tuple(read(paths, language))


def _check_language(benchmark: str, language: str, known: Iterable[str]) -> None:
    if language not in (known := list(known)):
        raise UsageError(f"{benchmark} has no published prompt in {language!r}; it has {', '.join(known)}")


def _read_text(path: Path) -> str:
    """The text of a file, without a byte order mark."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 at byte {error.start + 1}; get the file again") from error


def _read_mbbq(paths: Sequence[Path], language: str) -> list[PublishedPrompt]:
    """Reads MBBQ's five prompts."""
    path, key = paths[0], "trans_prompt_dict"
    literals = _python_literals(path, {"prompts", "prompt_sets", key})
    found, sets = literals.get("prompts"), literals.get("prompt_sets")
    if found is None and isinstance(sets, dict):
        found = [text for texts in sets.values() for text in (texts if isinstance(texts, list) else [None])]
    if not isinstance(found, list) or not found or not all(isinstance(text, str) for text in found):
        raise DataError(f"{path}: no list of prompts under the name prompts or prompt_sets; get the file again")
    try:
        translations = _TRANSLATIONS.validate_python(literals.get(key, {}), strict=True)
    except ValidationError as error:
        raise DataError(f"{path}: {key}: not language → English prompt → translation") from error
    _check_language("mbbq", language, ["en", *translations])
    known = {text: text for text in found} if language == "en" else translations[language]
    if missing := [text for text in found if text not in known]:
        raise DataError(f"{path}: {key}[{language!r}]: no translation of {missing[0][:60]!r}")
    return [_prompt(path, f"published_{number}", known[text].strip()) for number, text in enumerate(found, 1)]


def _python_literals(path: Path, names: set[str]) -> dict[str, Any]:
    """Name → value of the top-level literals in a Python file, which is parsed but never run."""
    text = _read_text(path)
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError) as error:
        where = f"{path}:{line}" if (line := getattr(error, "lineno", None)) else str(path)
        raise DataError(f"{where}: not Python ({error.args[0]}); get the file again") from error
    found: dict[str, Any] = {}
    for node in (node for node in tree.body if isinstance(node, ast.Assign)):
        for name in {target.id for target in node.targets if isinstance(target, ast.Name)} & names:
            try:
                found[name] = ast.literal_eval(node.value)
            except ValueError as error:
                raise RowLocation(path, node.lineno).error("not a literal; code is never run", name) from error
    return found


class _KobbqRow(BaseModel):
    """The parts of a prompt."""

    prompt_id: NonBlank
    instruction: NonBlank
    context: str
    question: str
    a: str
    b: str
    c: str
    answer: str
    unknown: NonBlank


def _read_kobbq(paths: Sequence[Path], language: str) -> list[PublishedPrompt]:
    """Reads KoBBQ's five prompts, composed like `make_prefix` and `make_prompt` of its `1_preprocess.py`."""
    _check_language("kobbq", language, ["ko"])
    prompts = []
    for _, row in read_table(paths[0], _KobbqRow, delimiter="\t"):
        instruction, answer, *pieces = (
            text.replace("{", "{{").replace("}", "}}")
            for text in (row.instruction, row.answer, row.context, row.question, row.a, row.b, row.c)
        )
        text = "".join([instruction, "\n\n", *(f"{piece}{{}}\n" for piece in pieces), answer])
        prompts.append(_prompt(paths[0], f"published_{row.prompt_id}", text, row.unknown))
    return prompts


def _read_bharatbbq(paths: Sequence[Path], language: str) -> list[PublishedPrompt]:
    """Reads BharatBBQ's prompts for questions in a language, from the existing files."""
    names = {**find_benchmark("bharatbbq").called, "en": "English"}
    _check_language("bharatbbq", language, names)
    prompts = []
    for path in paths:
        kind = "zero_shot" if path.name == "zero-shot.md" else "few_shot"
        for heading, text in _BLOCK.findall(_read_text(path).replace("\r\n", "\n")):
            named = _NAMED_LANGUAGE.search(heading)
            if named is None or named[1].lower() == names[language].lower():
                ending = "_english" if "english instruction" in heading.lower() else ""
                prompts.append(_prompt(path, f"published_{kind}{ending}", text))
    return prompts


def _prompt(path: Path, id_: str, text: str, unknown_text: str | None = None) -> PublishedPrompt:
    """Converts a prompt to our placeholders, with `{label_a}` instead of the authors' label.

    `text` has `{}` or named placeholders, in the syntax of `str.format`.
    """
    where, ours = f"{path}: {id_}", [f"{{{slot}}}" for slot in SLOTS]
    try:
        text = text.format(*ours, **{name: f"{{{slot}}}" for name, slot in _NAMES.items()})
    except (IndexError, KeyError) as error:
        raise DataError(f"{where}: a placeholder that is not known, or one too many ({error})") from error
    except (ValueError, AttributeError) as error:
        raise DataError(f"{where}: not a text with placeholders: {error}") from error
    if wrong := [slot for slot, placeholder in zip(SLOTS, ours, strict=True) if text.count(placeholder) != 1]:
        raise DataError(f"{where}: {wrong[0]} has no place, or several")
    pieces = PLACEHOLDER.split(text)  # text and placeholders alternate
    before_options = [pieces.index(slot, 1) - 1 for slot in SLOTS[2:]]
    texts = [pieces[index] for index in before_options]
    styles = sorted(LABEL_STYLES.items(), key=lambda entry: -len(entry[1][0]))  # the longest labels first
    style = next((name for name, labels in styles if all(map(_ends_with, texts, labels))), None)
    if style is None:
        known = ", ".join(LABEL_STYLES)
        raise DataError(f"{where}: the options have no labels before them that are one of {known}")
    for label, letter, index in zip(LABEL_STYLES[style], "abc", before_options, strict=True):
        before, _, after = pieces[index].rpartition(label)
        pieces[index] = f"{before}{{label_{letter}}}{after}"
    whole = "".join(f"{{{piece}}}" if number % 2 else piece for number, piece in enumerate(pieces))
    try:
        variant = PromptVariant(id=id_, kind="published", text=whole)
    except ValidationError as error:
        raise DataError(f"{where}: {describe_fault(error, {})}") from error
    return PublishedPrompt(variant, style, path, unknown_text)


def _ends_with(text: str, label: str) -> bool:
    """Whether a text ends with a label that is not part of a word, ignoring spaces, colons, dots and brackets."""
    before, found, after = text.rpartition(label)
    in_word = label[0].isalnum() and before[-1:].isalnum()
    return bool(found) and not in_word and not after.strip(" \t\n:.)")


_READERS: Final[dict[str, tuple[Callable[[Sequence[Path], str], list[PublishedPrompt]], *tuple[str, ...]]]] = {
    "mbbq": (_read_mbbq, "answer_detection.py"),
    "kobbq": (_read_kobbq, "evaluation/0_evaluation_prompts.tsv"),
    "kobbq_all": (_read_kobbq, "evaluation/0_evaluation_prompts.tsv"),
    "bharatbbq": (
        _read_bharatbbq,
        "zero-shot.md",
        "few-shot-English_instruction.md",
        "few-shot_Target_instruction.md",
    ),
}
"""Benchmark → reader of its prompts, and their files."""
