"""How likely a model finds each answer to a question: sums of log-probabilities, many answers in one forward.

A forward for each answer reads the prompt as often as there are answers. Here prompts and answers are laid out as trees
(`prefix_cache`), so that a forward reads the prompt once, and what answers or neighbouring questions share once too:

    prompt    Who forgot it? │ the old man      sheet    Who forgot it? the old man young one can't be said
              Who forgot it? │ the young one    logits               ^   ^   ^  ^     ^       ^    ^  ^
              Who forgot it? │ can't be said             only where an answer's next token is read off

Models that do not read trees (`decoding.supports_tree_attention`) get a forward for each answer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Continuation, ContinuationScore, Message, Request, Response, Usage
from mbbq_gen.providers.local.chat_format import (
    ChatFormatter,
    PromptError,
    ScoringPrompt,
    scored_texts,
    scoring_prompt,
)
from mbbq_gen.providers.local.decoding import NOT_NUMBERS, supports_tree_attention
from mbbq_gen.providers.local.options import is_out_of_memory, release_memory
from mbbq_gen.providers.local.prefix_cache import (
    Model,
    PrefixCache,
    lay_out,
    n_fitting,
    read_sheet,
    trail_of,
    tree_window,
)

if TYPE_CHECKING:
    from torch import Tensor


Tokens = Sequence[int]
_logger = logging.getLogger(__name__)
_found_ways: WeakKeyDictionary[Model, str] = WeakKeyDictionary()


def iterate_scores(
    model: Model, prompts: list[list[int]], answers: list[list[list[int]]], *, max_tokens: int = 512
) -> Iterator[tuple[int, list[float]]]:
    """The number of each prompt and the sums of natural-log probabilities of its answers' tokens, as they are done.

    Prompts and answers are token ids, at least one each; a prompt may have no answers. `max_tokens` are read in one
    forward, at least one question; it is halved where memory runs out.

    Raises:
        ProviderError: where the model's probabilities are no numbers, or a question does not fit into memory.
    """
    lengths = {n: len(prompts[n]) + max(map(len, given)) - 1 for n, given in enumerate(answers) if given}
    if not lengths:
        return
    way, window = scoring_way(model), tree_window(model.config.get_text_config())
    packable = [n for n in lengths if way == "packed" and (window is None or lengths[n] <= window)]
    waiting, sheets = sorted(packable, key=lambda number: prompts[number]), _Sheets(model)
    while waiting:
        sizes = ((prompts[n], sum(len(answer) - 1 for answer in answers[n])) for n in waiting)
        group = waiting[: n_fitting(sheets.trail.tokens, sizes, max_tokens)]
        scores: list[list[float]] | None = None
        try:
            scores = sheets.score([prompts[number] for number in group], [answers[number] for number in group])
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        if scores is None:  # out of the except clause, whose error holds on to the memory of what failed
            release_memory()
            sheets, max_tokens = _Sheets(model), max(1, max_tokens // 2)
            if len(group) == 1:
                raise ProviderError(f"out of memory with a question of {lengths[group[0]]} tokens")
            continue
        del waiting[: len(group)]
        for number, sums in zip(group, scores, strict=True):
            yield number, _checked(sums)
    for number in sorted(lengths.keys() - set(packable)):
        yield number, _checked([_score_alone(model, prompts[number], answer) for answer in answers[number]])


def scoring_way(model: Model) -> str:
    """`packed`, or `plain` where the model does not read trees; found out once."""
    if model not in _found_ways:
        _found_ways[model] = "packed" if supports_tree_attention(model) else "plain"
        if _found_ways[model] == "plain":
            _logger.warning(
                "%s: can't score several answers at once; the prompt is read anew for each, which is much slower",
                type(model).__name__,
            )
    return _found_ways[model]


def _checked(sums: list[float]) -> list[float]:
    if any(math.isnan(value) for value in sums):
        raise ProviderError(NOT_NUMBERS)
    return sums


@torch.inference_mode()
def _score_alone(model: Model, prompt: Tokens, answer: Tokens) -> float:
    """The sum of an answer, by a forward of its own."""
    tokens = torch.tensor([[*prompt, *answer[:-1]]], device=model.device)
    logits = model(input_ids=tokens, use_cache=False).logits[0, len(prompt) - 1 :]
    return _sums(logits, [list(range(len(answer)))], [answer])[0]


class _Sheets:
    """Scores groups of questions that come in the order of their prompts' tokens."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self.trail = PrefixCache()

    @torch.inference_mode()
    def score(self, prompts: Sequence[Tokens], answers: Sequence[Sequence[Tokens]]) -> list[list[float]]:
        """The sums of each question's answers, all in one forward."""
        lines, shareable = [], []
        for prompt, given in zip(prompts, answers, strict=True):
            # an answer's last token is never read: nothing comes after it
            own = sorted((*prompt, *answer[:-1]) for answer in given)
            lines += own
            shareable += [len(prompt) - 1, *map(len, own[1:])]
        sheet = lay_out(lines, self.trail, shareable)
        path_of = dict(zip(lines, sheet.paths, strict=True))
        every = [(prompt, answer) for prompt, given in zip(prompts, answers, strict=True) for answer in given]
        wanted = [path_of[(*prompt, *answer[:-1])][len(prompt) - 1 :] for prompt, answer in every]
        places = sorted({place for path in wanted for place in path})
        cache, logits = read_sheet(self._model, sheet, self.trail, places)
        last = tuple(prompts[-1])
        self.trail = trail_of(last, path_of[lines[-1]][: len(last)], cache)
        rows = {place: row for row, place in enumerate(places)}
        found = _sums(logits, [[rows[place] for place in path] for path in wanted], [answer for _, answer in every])
        remaining = iter(found)
        return [[next(remaining) for _ in given] for given in answers]


def _sums(logits: Tensor, rows: Sequence[Sequence[int]], answers: Sequence[Tokens]) -> list[float]:
    """Sums of log-probabilities: `rows` are the lines of `logits` from which each answer's tokens are read off."""
    logits = logits.float()
    index = torch.tensor([row for path in rows for row in path], device=logits.device)
    tokens = torch.tensor([token for answer in answers for token in answer], device=logits.device)
    remaining = iter((logits[index, tokens] - logits.logsumexp(dim=-1)[index]).tolist())
    return [sum(next(remaining) for _ in answer) for answer in answers]


# --- answers to requests ---------------------------------------------------------------------------------------------


Sums = dict[tuple[int, ...], float]
"""An answer's tokens → the sum of their log-probabilities: equal texts of a question are scored once."""
_Alone = tuple[tuple[Message, ...], str]
"""The text before an answer where there is none, and the answer's text."""


@dataclass
class LoglikelihoodScorer:
    """Scores the answers of requests with one loaded model."""

    model: Any
    tokenizer: Any
    formatter: ChatFormatter
    name: str
    context: int | None
    """Most tokens of prompt and answer together; None where the model names no limit."""
    read_tokens: int
    kernel: Callable[..., Iterator[tuple[int, list[float]]]] | None = None
    """What computes the sums of log-probabilities, with the arguments of `iterate_scores`; None: that itself."""
    _unconditional: dict[_Alone, float] = field(default_factory=dict)
    """How likely an answer is after its prefix alone: each is scored once."""
    _merged: int = 0
    """Questions whose answers begin within a token of the prompt."""

    def runtime_info(self) -> dict[str, Any]:
        """How the answers turned out to be scored, for the manifest; nothing where none were."""
        way = _found_ways.get(self.model) if self.kernel is None else "engine"
        found: dict[str, Any] = {} if way is None else {"scoring_used": way}
        return found | ({"questions_with_merged_tokens": self._merged} if self._merged else {})

    def score(self, requests: Sequence[Request], is_cancelled: Callable[[], bool]) -> Iterator[Response]:
        """The responses, those that begin alike one after another; stops soon once cancelled. Raises ProviderError."""
        accepted: list[Request] = []
        questions: list[ScoringPrompt] = []
        alone: dict[_Alone, ScoringPrompt] = {}
        for request in requests:
            if is_cancelled():
                return
            shown, prior = request.prompt, request.prompt.unconditional_prompt
            verbatim = shown.method != "loglikelihood"
            try:
                question = self.tokens_of(shown.messages, shown.continuations, verbatim=verbatim)
                longest = len(question.prompt) + max(map(len, question.answers))
                if self.context is not None and longest > self.context:
                    raise PromptError(
                        f"question and answer have {longest} tokens, and the model takes {self.context} in all;"
                        " use fewer --num-fewshot or a shorter variant"
                    )
                for answer in shown.continuations if prior else ():
                    if (prior, answer.text) not in self._unconditional.keys() | alone.keys():
                        alone[prior, answer.text] = self.tokens_of(prior, [answer], verbatim=verbatim)
            except PromptError as error:
                yield Response(request_key=request.request_key, error=str(error), model=self.name)
                continue
            accepted.append(request)
            questions.append(question)
        keys = list(alone)
        for number, sums in self._sums(list(alone.values()), is_cancelled):
            (self._unconditional[keys[number]],) = sums.values()
        for number, sums in self._sums(questions, is_cancelled):
            yield self._respond(accepted[number], questions[number], sums)

    def _sums(self, questions: Sequence[ScoringPrompt], is_cancelled: Callable[[], bool]) -> Iterator[tuple[int, Sums]]:
        """The number of each question and its sums, as they are done; fewer where it is cancelled."""
        texts = [list(dict.fromkeys(question.answers)) for question in questions]
        found = (self.kernel or iterate_scores)(
            self.model,
            [list(question.prompt) for question in questions],
            [[list(tokens) for tokens in answers] for answers in texts],
            max_tokens=self.read_tokens,
        )
        while not is_cancelled() and (scored := next(found, None)) is not None:
            number, sums = scored
            yield number, dict(zip(texts[number], sums, strict=True))

    def _respond(self, request: Request, question: ScoringPrompt, sums: Sums) -> Response:
        if question.merged and not self._merged:
            _logger.warning(
                "%s: merges the end of the question with an answer into one token: answers are scored from the last"
                " token that all of them share with the question",
                self.name,
            )
        self._merged += question.merged
        shown = request.prompt
        is_first = shown.method == "first-token-logprobs"
        scores = tuple(
            ContinuationScore.of(
                answer,
                None if is_first and (question.merged or len(tokens) > 1) else sums[tokens],
                1 if is_first else len(tokens),
                self._unconditional[shown.unconditional_prompt, answer.text] if shown.unconditional_prompt else None,
            )
            for answer, tokens in zip(shown.continuations, question.answers, strict=True)
        )
        if is_first and all(score.logprob is None for score in scores):
            no_label = "no label is a single token in this model's tokenizer; use --method label-loglikelihood"
            return Response(request_key=request.request_key, error=no_label, model=self.name)
        return Response(
            request_key=request.request_key,
            scores=scores,
            finish_reason="stop",
            model=self.name,
            usage=Usage(input_tokens=len(question.prompt) + sum(map(len, question.answers)), output_tokens=0),
        )

    def tokens_of(
        self, messages: Sequence[Message], answers: Sequence[Continuation], *, verbatim: bool
    ) -> ScoringPrompt:
        """Prompt and answers as tokens, without a token that ends a text; raises PromptError where one has none."""
        texts = scored_texts(
            self.formatter.scored_text(messages),
            answers,
            uses_template=self.formatter.uses_template,
            verbatim=verbatim,
        )
        adds_special = not self.formatter.uses_template
        end, written = self.tokenizer.eos_token_id, self.tokenizer.eos_token
        found = self.tokenizer(list(texts), add_special_tokens=adds_special)["input_ids"]
        read, *whole = (
            tokens[:-1] if adds_special and tokens[-1:] == [end] and not text.endswith(written) else tokens
            for text, tokens in zip(texts, found, strict=True)
        )
        return scoring_prompt(answers, read, whole)
