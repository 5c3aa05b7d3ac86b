"""How likely a model finds each answer to a question: sums of log-probabilities, many answers in one forward.

A forward for each answer reads the prompt as often as there are answers. Here prompts and answers are laid out as trees
(`prefix_cache`), so that a forward reads the prompt once, and what answers or neighbouring questions share once too:

    prompt    Who forgot it? │ the old man      sheet    Who forgot it? the old man young one can't be said
              Who forgot it? │ the young one    logits               ^   ^   ^  ^     ^       ^    ^  ^
              Who forgot it? │ can't be said             only where an answer's next token is read off
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import ContinuationScore, Message, Request, Response, Usage
from mbbq_gen.providers.local.chat_format import ChatFormatter, PromptError, ScoringPrompt
from mbbq_gen.providers.local.decoding import NOT_NUMBERS
from mbbq_gen.providers.local.options import unless_memory_runs_out
from mbbq_gen.providers.local.prefix_cache import Model, PrefixReader, tree_window

if TYPE_CHECKING:
    from torch import Tensor


Tokens = Sequence[int]
_logger = logging.getLogger(__name__)


def iterate_scores(
    model: Model,
    prompts: list[list[int]],
    answers: list[list[list[int]]],
    *,
    reads_trees: bool = True,
    max_tokens: int = 512,
) -> Iterator[tuple[int, list[float]]]:
    """The number of each prompt and the sums of natural-log probabilities of its answers' tokens, as they are done.

    Prompts and answers are token ids, at least one each; a prompt may have no answers. `max_tokens` are read in one
    forward, at least one question; it is halved where memory runs out. A model that does not read trees
    (`decoding.supports_tree_attention`) gets a forward for each answer.

    Raises:
        ProviderError: where the model's probabilities are no numbers, or a question does not fit into memory.
    """
    lengths = {n: len(prompts[n]) + max(map(len, given)) - 1 for n, given in enumerate(answers) if given}
    window = tree_window(model.config.get_text_config())
    packable = [n for n in lengths if reads_trees and (window is None or lengths[n] <= window)]
    waiting, reader = sorted(packable, key=lambda number: prompts[number]), PrefixReader(model)
    while waiting:
        sizes = ((prompts[n], sum(len(answer) - 1 for answer in answers[n])) for n in waiting)
        group = waiting[: reader.n_fitting(sizes, max_tokens)]
        questions = [(prompts[number], answers[number]) for number in group]
        scores = unless_memory_runs_out(partial(_score_group, reader, questions))
        if scores is None:
            reader, max_tokens = PrefixReader(model), max(1, max_tokens // 2)
            if len(group) == 1:
                raise ProviderError(f"out of memory with a question of {lengths[group[0]]} tokens")
            continue
        del waiting[: len(group)]
        for number, sums in zip(group, scores, strict=True):
            yield number, _checked(sums)
    for number in sorted(lengths.keys() - set(packable)):
        yield number, _checked([_score_alone(model, prompts[number], answer) for answer in answers[number]])


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


@torch.inference_mode()
def _score_group(reader: PrefixReader, questions: Sequence[tuple[Tokens, Sequence[Tokens]]]) -> list[list[float]]:
    """The sums of each question's answers, all in one forward; questions come in the order of their prompts."""
    lines, shareable, starts = list[tuple[int, ...]](), list[int](), list[int]()
    for prompt, answers in questions:
        # an answer's last token is never read: nothing comes after it
        own = sorted((*prompt, *answer[:-1]) for answer in answers)
        lines += own
        shareable += [len(prompt) - 1, *map(len, own[1:])]
        starts += [len(prompt) - 1] * len(own)
    reading = reader.read(lines, shareable, starts)
    rows_of = dict(zip(zip(starts, lines, strict=True), reading.rows, strict=True))
    every = [(prompt, answer) for prompt, answers in questions for answer in answers]
    rows = [rows_of[len(prompt) - 1, (*prompt, *answer[:-1])] for prompt, answer in every]
    found = iter(_sums(reading.logits, rows, [answer for _, answer in every]))
    return [[next(found) for _ in answers] for _, answers in questions]


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

    name: str
    formatter: ChatFormatter
    compute: Callable[[list[list[int]], list[list[list[int]]]], Iterator[tuple[int, list[float]]]]
    """The sums of log-probabilities of the answers to some prompts, as `iterate_scores` gives them."""
    way: str
    """How they are computed: `packed`, `plain` (a forward for each answer) or `engine`."""
    context: int | None
    """Most tokens of prompt and answer together; None where the model names no limit."""
    _unconditional: dict[_Alone, float] = field(default_factory=dict)
    """How likely an answer is after its prefix alone: each is scored once."""
    _is_used: bool = False
    _merged: int = 0
    """Questions whose answers begin within a token of the prompt."""

    def runtime_info(self) -> dict[str, Any]:
        """How the answers turned out to be scored, for the manifest; nothing where none were."""
        found: dict[str, Any] = {"scoring_used": self.way} if self._is_used else {}
        return found | ({"questions_with_merged_tokens": self._merged} if self._merged else {})

    def score(self, requests: Sequence[Request], is_cancelled: Callable[[], bool]) -> Iterator[Response]:
        """The responses, those that begin alike one after another; stops soon once cancelled. Raises ProviderError."""
        if self.way == "plain" and not self._is_used:
            _logger.warning("%s: the prompt is read anew for each answer, which is much slower", self.name)
        self._is_used = True
        accepted: list[Request] = []
        questions: list[ScoringPrompt] = []
        alone: dict[_Alone, ScoringPrompt] = {}
        for request in requests:
            if is_cancelled():
                return
            shown, prior = request.prompt, request.prompt.unconditional_prompt
            verbatim = shown.method != "loglikelihood"
            try:
                question = self.formatter.scoring_prompt(shown.messages, shown.continuations, verbatim=verbatim)
                longest = len(question.prompt) + max(map(len, question.answers))
                if self.context is not None and longest > self.context:
                    raise PromptError(
                        f"question and answer have {longest} tokens, and the model takes {self.context} in all;"
                        " use fewer --num-fewshot or a shorter variant"
                    )
                for answer in shown.continuations if prior else ():
                    if (prior, answer.text) not in self._unconditional.keys() | alone.keys():
                        found = self.formatter.scoring_prompt(prior, [answer], verbatim=verbatim)
                        alone[prior, answer.text] = found
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
        found = self.compute(
            [list(question.prompt) for question in questions],
            [[list(tokens) for tokens in answers] for answers in texts],
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
