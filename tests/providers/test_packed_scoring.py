from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.loglikelihood import score_answers

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

import torch

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.local.decoding import supports_tree_attention
from mbbq_gen.providers.local.files import ModelSource
from mbbq_gen.providers.local.prefix_cache import iterate_scores
from tests.support.providers import make_model, make_token_lists

KINDS = ["llama", "gpt2", "qwen2", "mistral"]
Questions = tuple[list[list[int]], list[list[list[int]]]]


def one_by_one(model: Any, prompts: list[list[int]], answers: list[list[list[int]]]) -> list[list[float]]:
    return [[alone(model, prompt, answer) for answer in given] for prompt, given in zip(prompts, answers, strict=True)]


def alone(model: Any, prompt: list[int], answer: list[int]) -> float:
    with torch.inference_mode():
        logits = model(input_ids=torch.tensor([prompt + answer])).logits[0].double()
    likely = torch.log_softmax(logits, dim=-1)
    return sum(likely[len(prompt) - 1 + place, token].item() for place, token in enumerate(answer))


def assert_alike(found: list[list[float]], expected: list[list[float]], most: float = 1e-4) -> None:
    assert [len(sums) for sums in found] == [len(sums) for sums in expected]
    for sums, others in zip(found, expected, strict=True):
        assert sums == pytest.approx(others, abs=most, rel=0)


def make_questions(count: int = 12, vocabulary: tuple[int, int] = (5, 48)) -> Questions:
    """Prompts that begin alike, each with answers of uneven length, some of which begin alike or are equal."""
    chance = random.Random(3)
    prompts = [list(tokens) for tokens in make_token_lists(count)]
    answers = []
    for _ in prompts:
        stem = [chance.randrange(*vocabulary) for _ in range(6)]
        given = [
            stem[: chance.randrange(0, 6)] + [chance.randrange(*vocabulary) for _ in range(chance.randrange(1, 5))]
            for _ in range(chance.randrange(1, 12))
        ]
        answers.append([*given, given[0], given[0][:1]])
    return prompts, answers


tokens = st.integers(5, 9)
questions = st.lists(
    st.tuples(st.lists(tokens, min_size=1, max_size=6), st.lists(st.lists(tokens, min_size=1, max_size=5), max_size=5)),
    min_size=1,
    max_size=6,
)


kept_model = cache(make_model)
"""A model that tests may share: made when the first of them asks."""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["gpt2", "llama", "qwen2"])
@given(asked=questions, max_tokens=st.integers(1, 80))
def test_any_questions_in_any_order_are_scored_as_alone(
    kind: str, asked: list[tuple[list[int], list[list[int]]]], max_tokens: int
) -> None:
    prompts, answers = [prompt for prompt, _ in asked], [given for _, given in asked]
    found = score_answers(kept_model(kind), prompts, answers, max_tokens=max_tokens)
    assert_alike(found, one_by_one(kept_model(kind), prompts, answers))


@pytest.mark.parametrize("forget", ["attention_mask", "position_ids"])
def test_a_model_that_takes_no_tree_mask_is_scored_one_by_one(forget: str) -> None:
    model, (prompts, answers) = make_model(), make_questions(4)
    expected = one_by_one(model, prompts, answers)
    assert_alike(score_answers(Counting(model, forget=forget), prompts, answers), expected)


def test_when_memory_runs_out_less_is_read_at_a_time() -> None:
    model, (prompts, answers) = make_model(), make_questions()
    expected = one_by_one(model, prompts, answers)
    short = Counting(model, fails=lambda named: named["input_ids"].shape[1] > 120)
    assert_alike(score_answers(short, prompts, answers, max_tokens=4000), expected)
    assert short.failures > 1


def test_a_question_that_never_fits_is_named_by_its_size() -> None:
    model = Counting(make_model(), fails=lambda named: named["input_ids"].shape[1] > 30)
    with pytest.raises(ProviderError, match="out of memory with a question of 42 tokens"):
        score_answers(model, [[5, 6], [7] * 40], [[[8]], [[9, 10, 11]]])


class Counting:
    """A model that counts what it reads, and forgets or fails where it is told to."""

    def __init__(
        self, model: Any, *, forget: str = "", fails: Callable[[dict[str, Any]], bool] = lambda _: False
    ) -> None:
        self._model, self._forget, self._fails = model, forget, fails
        self.forward = model.forward
        self.read = self.failures = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def __call__(self, **named: Any) -> Any:
        if self._fails(named):
            self.failures += 1
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.read += named["input_ids"].shape[1]
        named.pop(self._forget, None)
        return self._model(**named)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("max_tokens", [1, 60, 4000])
def test_packed_scores_are_those_of_a_forward_for_each_answer(kind: str, max_tokens: int) -> None:
    model, (prompts, answers) = make_model(kind), make_questions()
    found = score_answers(model, prompts, answers, max_tokens=max_tokens)
    assert supports_tree_attention(model)
    assert_alike(found, one_by_one(model, prompts, answers))


@pytest.mark.slow
@pytest.mark.model
def test_the_real_small_model_scores_packed_as_alone(small_model: ModelSource) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(small_model.location)
    model = AutoModelForCausalLM.from_pretrained(small_model.location, dtype=torch.float32).eval()
    told = "A grandfather and a student left the library."
    asked = [f"{told} Who forgot the keys?", f"{told} Who did not forget the keys?", "Wer hat gewonnen?"]
    given = [" the grandfather", " the student", " It can't be said", " Not known", " Niemand weiß es"]
    prompts = [tokenizer(text)["input_ids"] for text in asked]
    answers = [[tokenizer(text)["input_ids"] for text in given]] * len(asked)
    found = dict(iterate_scores(model, prompts, answers))
    assert supports_tree_attention(model)
    assert_alike([found[number] for number in range(len(asked))], one_by_one(model, prompts, answers))
