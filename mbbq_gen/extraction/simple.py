"""Baseline extractors, choices by loglikelihood, and extraction from JSON Lines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import regex
from pydantic import BaseModel, Field, StringConstraints, ValidationError

from mbbq_gen.core.errors import DataError, UnknownNameError, UsageError, describe_fault
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import ContinuationScore, Extraction, Method, Normalise
from mbbq_gen.core.tables import UnreadableError, json_object
from mbbq_gen.extraction.question import Question, label_core
from mbbq_gen.extraction.text import WORD, loose_key

if TYPE_CHECKING:
    from mbbq_gen.extraction.engine import RuleExtractor

SimpleExtractor = Callable[[str, Question], Extraction]
_LAST_LINE = r"^[^:：]{1,40}[:：][\s*_(\[“”\"«「]*"
"""`Answer: ` in any language, before a label in the last line."""
_JSON_ANSWER = regex.compile(r'"answer"\s*:\s*"([^"]{1,8})"')
_CUES = "answer", "antwoord", "respuesta", "cevap", "option", "optie", "opción", "seçenek"
_UNKNOWN = (
    *("unknown", "cannot be determined", "onbekend", "niet bekend", "no se sabe", "desconocid"),
    *("bilinmiyor", "belirsiz"),
)


def _option(index: int, rule: str, start: int = 0, text: str = "") -> Extraction:
    spans = ((start, start + len(text)),) if text and start >= 0 else ()
    return Extraction(outcome="option", option=index, confidence="low", rule=rule, spans=spans)


def _none(response: str, rule: str) -> Extraction:
    blank = not response.strip()
    return Extraction(outcome="empty" if blank else "unparsed", rule="empty" if blank else rule)


def _labels(question: Question) -> tuple[dict[str, int], str]:
    """The labels without brackets by option, and a pattern for any of them."""
    cores = {label_core(label): index for index, label in enumerate(question.labels)}
    return cores, "|".join(regex.escape(core) for core in sorted(cores, key=len, reverse=True))


def strict_match(response: str, question: Question) -> Extraction:
    """The option whose label is the whole response, without brackets, dots and emphasis."""
    bare = response.strip(" \t\r\n()[]{}*_`\"'.:,;!#")
    cores, _ = _labels(question)
    if bare in cores:
        return _option(cores[bare], "strict_match", response.find(bare), bare)
    return _none(response, "strict_match")


def first_label(response: str, question: Question) -> Extraction:
    """The option of the first label that is a word of its own."""
    cores, pattern = _labels(question)
    match = regex.search(rf"\b(?:{pattern})\b", response)
    if match is None:
        return _none(response, "first_label")
    return _option(cores[match.group()], "first_label", match.start(), match.group())


def mbbq_like(response: str, question: Question) -> Extraction:
    """A reimplementation of MBBQ's released extractor, with its known flaws.

    Its stages are, in order: an option text at the start; a label beside a word such as "answer"; a phrase for not
    knowing; exactly one option text; the first or last character, the cause of half of its errors; exactly one label.
    """
    low = response.lower().strip()
    texts = [option.lower().strip() for option in question.options]
    cores = [label_core(label).lower() for label in question.labels]
    words = [loose_key(word) for word in WORD.findall(low)]
    for index, text in enumerate(texts):
        if low and low.startswith(text):
            return _option(index, "mbbq_like:starts_with_text", 0, text)
    for index, word in enumerate(words):
        if any(cue in word for cue in _CUES):
            for neighbour in (*words[index + 1 : index + 3], *words[max(0, index - 1) : index]):
                if neighbour in cores:
                    return _option(cores.index(neighbour), "mbbq_like:cue")
    if question.unknown_index is not None and any(phrase in low for phrase in _UNKNOWN):
        return _option(question.unknown_index, "mbbq_like:unknown")
    inside = [index for index, text in enumerate(texts) if text in low]
    if len(inside) == 1:
        return _option(inside[0], "mbbq_like:only_text", low.find(texts[inside[0]]), texts[inside[0]])
    letters = low.strip("([{*\"' \n")
    for rule, character in (("first", letters[:1]), ("last", low.rstrip(".!?)*\"' \n")[-1:])):
        if character in cores:
            return _option(cores.index(character), f"mbbq_like:{rule}_character")
    alone = [index for index, core in enumerate(cores) if loose_key(core) in words]
    if len(alone) == 1:
        return _option(alone[0], "mbbq_like:only_label")
    return Extraction(outcome="multiple", rule="mbbq_like") if alone else _none(response, "mbbq_like")


def answer_line(response: str, question: Question) -> Extraction:
    """The label alone, in JSON, or in a last line such as `Answer: B`.

    It works for any language, as a cross-check of the rules on answers to `--axes format=label+json+line`.
    """
    alone = strict_match(response, question)
    if alone.option is not None:
        return alone.model_copy(update={"rule": "answer_line:alone"})
    cores, pattern = _labels(question)
    for value in reversed(_JSON_ANSWER.findall(response)):
        if (core := label_core(value)) in cores:
            return _option(cores[core], "answer_line:json", response.rfind(value), value)
    last = (response.strip().splitlines() or [""])[-1].strip()
    match = regex.match(rf"{_LAST_LINE}({pattern})\b[\s*_)\].”\"»」。]*$", last)
    if match is not None:
        return _option(cores[match.group(1)], "answer_line:line", response.rfind(last) + match.start(1), match.group(1))
    return _none(response, "answer_line")


SIMPLE_VERSION = "1"
"""Increased by every change of a baseline extractor that may change an extraction."""
SIMPLE_EXTRACTORS: dict[str, SimpleExtractor] = {
    "strict-match": strict_match,
    "first-label": first_label,
    "mbbq-like": mbbq_like,
    "answer-line": answer_line,
}
"""Name on the command line → baseline extractor."""
ENGINE: Final = "rules"
"""Name of the rule extractor."""


def extractor_names() -> list[str]:
    """The names of all extractors, the rule extractor first."""
    return [ENGINE, *SIMPLE_EXTRACTORS]


# --- loglikelihoods --------------------------------------------------------------------------------------------------

LENGTHS: Final[tuple[Normalise, ...]] = "token", "char", "byte"
"""Normalisations by a length."""
PRIOR: Final[Normalise] = "pmi"
"""The normalisation by the answers' unconditional likelihoods."""
LIKELIHOOD_VERSION: Final = 1
LIKELIHOOD_PREFIX: Final = "loglikelihood:"
"""Prefix of the versions under which choices by loglikelihood are stored."""
TIE: Final = 1e-6
"""Largest difference of normalised scores in a tie; float32 rounds by about as much."""
LABEL_MISSING: Final = "label_missing"
"""Conflict of a choice: the service gave no probability for some option."""


def version_of(normalise: Normalise) -> str:
    """The version of a choice: `loglikelihood:sum+1`."""
    return f"{LIKELIHOOD_PREFIX}{normalise}+{LIKELIHOOD_VERSION}"


def normalised_score(score: ContinuationScore, normalise: Normalise) -> float | None:
    """The normalised loglikelihood of a continuation; None if the service gave none.

    Raises UsageError if the answers' unconditional likelihoods, or their tokens, are missing.
    """
    if score.logprob is None:
        return None
    if normalise == "pmi":
        if score.unconditional_logprob is None:
            raise UsageError(
                """pmi needs the answers' unconditional likelihoods, which this run did not request;"""
                """ make a run with --normalization pmi"""
            )
        return score.logprob - score.unconditional_logprob
    if normalise == "token" and score.tokens is None:
        raise UsageError("token needs the answers' tokens, which the imported log does not hold; use char")
    lengths = {"sum": 1, "token": score.tokens or 1, "char": score.characters, "byte": score.bytes}
    return score.logprob / lengths[normalise]


def option_scores(scores: Sequence[ContinuationScore], normalise: Normalise) -> dict[int, float | None]:
    """Option → the best normalised score of its texts; None if they have none."""
    found: dict[int, float | None] = {}
    for score in scores:
        value, best = normalised_score(score, normalise), found.get(score.option)
        found[score.option] = value if best is None else best if value is None else max(best, value)
    return found


def choose_by_loglikelihood(
    scores: Sequence[ContinuationScore], order: Sequence[int], method: Method, normalise: Normalise = "sum"
) -> Extraction:
    """The option with the greatest loglikelihood; raises as `normalised_score`.

    Args:
        scores: scores of all texts of all options.
        order: index of the option shown at each position.
        method: the method; the loglikelihoods of labels are not normalised.
        normalise: normalisation of answers' texts.
    """
    how: Normalise = normalise if method == "loglikelihood" else "sum"
    values = {option: value for option, value in option_scores(scores, how).items() if value is not None}
    rule = f"{method}:{how}"
    if not values or any(math.isnan(value) for value in values.values()):
        return Extraction(outcome="unparsed", confidence="high", rule=rule, conflicts=(LABEL_MISSING,))
    conflicts = () if len(values) == len(order) else (LABEL_MISSING,)
    best = max(values.values())
    chosen = [option for option, value in values.items() if best - value <= TIE]
    if len(chosen) > 1:
        return Extraction(outcome="multiple", confidence="high", rule=f"{rule}:tie", conflicts=conflicts)
    shown = list(order).index(chosen[0])
    return Extraction(outcome="option", option=shown, confidence="high", rule=rule, conflicts=conflicts)


# --- JSON Lines ------------------------------------------------------------------------------------------------------

LANGUAGE: Final = r"[a-z]{2,3}(-[A-Za-z0-9]+)*"
_Text = Annotated[str, StringConstraints(strict=True)]
_Texts = Annotated[list[Annotated[_Text, StringConstraints(pattern=r"\S")]], Field(min_length=2, max_length=10)]


class ResponseRow(BaseModel):
    """One response with its question; other fields of the line are ignored."""

    language: Annotated[str, StringConstraints(strict=True, pattern=f"^{LANGUAGE}$")]
    response: _Text
    options: _Texts
    labels: _Texts = []
    """The labels as shown; A, B, C… if left out."""
    unknown_index: Annotated[int, Field(strict=True)] | None
    aliases: dict[str, _Texts] | None = None
    prompt: _Text | None = None
    context: _Text | None = None
    question: _Text | None = None
    finish_reason: _Text | None = None

    def to_question(self) -> Question:
        """The question; without a prompt, it is made from context and question. Raises as `Question`."""
        prompt = self.prompt or "\n".join(part for part in (self.context, self.question) if part) or None
        labels = self.labels or list("ABCDEFGHIJ"[: len(self.options)])
        return Question(self.options, labels, self.unknown_index, prompt, self.aliases or {})

    def read(self, extractor: RuleExtractor) -> Extraction:
        """The extraction of the response by the rule extractor."""
        return extractor.extract(self.response, self.to_question(), finish_reason=self.finish_reason)


RowT = TypeVar("RowT", bound=ResponseRow)


def extract_lines(
    lines: Iterable[str], source_name: str, *, resources: PackPaths | None = None, extractor: str = ENGINE
) -> Iterator[dict[str, Any]]:
    """The objects of the lines, in order, each with its extraction.

    Args:
        lines: JSON objects; blank lines are skipped.
        source_name: name of the source in messages.
        resources: where packs are found.
        extractor: name of the extractor.

    Raises:
        DataError: if a row is wrong; the message has source, row and field.
    """
    from mbbq_gen.extraction.engine import load_extractor

    if extractor not in extractor_names():
        raise UnknownNameError("extractor", extractor, extractor_names())
    for row, checked in read_rows(ResponseRow, lines, source_name):
        if extractor == ENGINE:
            found = checked.read(load_extractor(checked.language, resources))
        else:
            found = SIMPLE_EXTRACTORS[extractor](checked.response, checked.to_question())
        yield row | found.model_dump(mode="json", include={"outcome", "option", "confidence", "rule", "spans"})


def read_rows(schema: type[RowT], lines: Iterable[str], source_name: str) -> Iterator[tuple[dict[str, Any], RowT]]:
    """Object and row of each line that is not blank; raises DataError for wrong rows."""
    required = [name for name, field in schema.model_fields.items() if field.is_required()]
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source_name}:{number}"
        try:
            row = json_object(line)
            for field in required:
                if field not in row:
                    raise DataError(f"{where}: {field}: missing; every row needs it (the indices may be null)")
            checked = schema.model_validate(row)
            checked.to_question()
        except ValidationError as error:
            raise DataError(f"{where}: {describe_fault(error, row)}") from error
        except (UnreadableError, UsageError) as error:
            raise DataError(f"{where}: {error}") from error
        yield row, checked
