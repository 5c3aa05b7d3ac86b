from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Message
from mbbq_gen.providers.local.chat_format import ChatFormatter
from mbbq_gen.providers.local.decoding import supports_tree_attention
from mbbq_gen.providers.local.model import LoglikelihoodScorer
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from tests.support.loglikelihood import naive_logprob, score_request
from tests.support.providers import answers, base, folder, make_model, make_tokenizer, save_model

__all__ = ["base", "folder"]


def provider(folder: Path, **options: Any) -> TransformersProvider:
    defaults: dict[str, Any] = {"device": "cpu", "threads": 1}
    return TransformersProvider(str(folder), TransformersOptions(**defaults | options))


@pytest.mark.parametrize(
    ("kind", "way"), [("llama", "packed"), ("mistral", "packed"), ("gpt2", "packed"), ("bloom", "plain")]
)
@pytest.mark.parametrize("read_tokens", [4, 512])
def test_sums_are_those_of_one_token_after_another(kind: str, way: str, read_tokens: int) -> None:
    tokenizer = make_tokenizer()
    changes = {"sliding_window": 30} if kind == "mistral" else {}
    model = make_model(kind, **changes)
    asked = scorer(tokenizer, model, read_tokens)
    assert asked.runtime_info() == {}
    stems = ["who?", "who lost the keys?", "who lost the key? answer:", "which one of the two is it?"]
    texts = ("anna", "annabel", "berta", "nobody", "not known", "no one can say")
    requests = [score_request(texts, text=stem, prompt_id=f"p{n}") for n, stem in enumerate(stems)]
    found = {response.request_key: response.scores or () for response in asked.score(requests, lambda: False)}
    assert asked.runtime_info() == {"scoring_used": way}
    for request, stem in zip(requests, stems, strict=True):
        prompt, given = tokenizer(stem)["input_ids"], [tokenizer(f" {text}")["input_ids"] for text in texts]
        expected = [naive_logprob(model, prompt, answer) for answer in given]
        assert [score.logprob for score in found[request.request_key]] == pytest.approx(expected, abs=1e-4)


def test_the_answer_stands_in_the_assistants_turn(folder: Path) -> None:
    found = answers(provider(folder), [score_request(text="who lost it")])["key of p1"]
    assert found.scores is not None
    tokenizer, model = make_tokenizer("with_default_system"), make_model()
    prompt = tokenizer(
        "<s><|turn|>system\nbe kind<|end|>\n<|turn|>user\nwho lost it<|end|>\n<|turn|>assistant\n",
        add_special_tokens=False,
    )["input_ids"]
    for score, text in zip(found.scores, ("anna", "berta", "nobody"), strict=True):
        answer = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert score.logprob == pytest.approx(naive_logprob(model, prompt, answer), abs=1e-4)
        assert (score.text, score.tokens, score.characters, score.bytes) == (text, len(text), len(text), len(text))


def test_a_base_model_reads_plain_text_with_a_space_before_the_answer(base: Path) -> None:
    messages = (
        Message(role="user", content="who? answer:"),
        Message(role="assistant", content="carl"),
        Message(role="user", content="who lost it? answer:"),
    )
    found = answers(provider(base), [score_request(messages=messages)])["key of p1"]
    assert found.scores is not None
    tokenizer, model = make_tokenizer(), make_model()
    prompt = tokenizer("who? answer: carl\n\nwho lost it? answer:")["input_ids"]
    for score, text in zip(found.scores, ("anna", "berta", "nobody"), strict=True):
        answer = tokenizer(f" {text}")["input_ids"]
        assert score.logprob == pytest.approx(naive_logprob(model, prompt, answer), abs=1e-4)
        assert (score.tokens, score.characters) == (len(text) + 1, len(text))


def merging_tokenizer() -> Any:
    """One token a letter, but `:A` and ` A` are one, as tokenizers of real models merge them."""
    from tokenizers import Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    letters = [*"abcdefghijklmnopqrstuvwxyz ABC.?:", ":A", " A"]
    vocabulary = {token: number for number, token in enumerate(["<pad>", "</s>", *letters])}
    core = Tokenizer(models.BPE(vocabulary, [(":", "A"), (" ", "A")]))
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="</s>")


def scorer(tokenizer: Any, model: Any, read_tokens: int = 512) -> LoglikelihoodScorer:
    reads_trees, formatter = supports_tree_attention(model), ChatFormatter(tokenizer, "toy", "plain")
    return LoglikelihoodScorer("toy", formatter, model, reads_trees, read_tokens, 512)


def test_where_the_prompts_end_is_merged_all_answers_begin_before_it() -> None:
    tokenizer, model = merging_tokenizer(), make_model()
    asked = scorer(tokenizer, model)
    request = score_request(("A", "B"), options=(0, 1), method="label-loglikelihood", text="who:")
    (response,) = asked.score([request], lambda: False)
    assert [score.tokens for score in response.scores or ()] == [1, 2]
    prompt, merged, other = (tokenizer(text)["input_ids"] for text in ("who", ":A", ":B"))
    expected = [naive_logprob(model, prompt, merged), naive_logprob(model, prompt, other)]
    assert [score.logprob for score in response.scores or ()] == pytest.approx(expected, abs=1e-4)


def test_what_cannot_be_scored_is_told_and_the_others_are_scored(folder: Path) -> None:
    requests = [
        score_request(prompt_id="long", text="a" * 480),
        score_request(prompt_id="fine"),
        score_request(prompt_id="unrenderable", messages=()),
    ]
    found = answers(provider(folder), requests)
    error = str(found["key of long"].error)
    assert all(part in error for part in ("523 tokens", "512", "--num-fewshot"))
    assert str(found["key of unrenderable"].error).startswith("the chat template refuses the messages")
    assert found["key of fine"].scores is not None


def test_numbers_that_are_none_stop_the_run() -> None:
    import torch

    model = make_model()
    asked = scorer(make_tokenizer(), model)
    with torch.no_grad():
        model.lm_head.weight[0, 0] = float("nan")
    with pytest.raises(ProviderError, match=r"are not numbers \(NaN\); try --dtype float32"):
        list(asked.score([score_request()], lambda: False))


def ask(run: Path, model: Path, *arguments: str) -> int:
    selection = ("--benchmark", "starter", "--languages", "en", "--splits", "bias", "--sample", "2", "--device", "cpu")
    return run_command_line(["run", str(run), "--model", f"transformers:{model}", *selection, *arguments])


@pytest.mark.parametrize("arguments", [("--method", "generate", "--max-tokens", "4"), ("--method", "loglikelihood")])
def test_a_model_without_a_template_is_told_of_in_a_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, arguments: tuple[str, ...]
) -> None:
    model = save_model(tmp_path / "model", "none", max_position_embeddings=4096)
    assert ask(tmp_path / "run", model, *arguments) == 0
    (line,) = (record.message for record in caplog.records if "template" in record.message)
    assert "no chat template" in line
    assert "plain text" in line
    assert "--method loglikelihood" in line


def test_a_question_that_is_too_long_is_told_of_in_a_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = save_model(tmp_path / "model", "none", max_position_embeddings=64)
    assert ask(tmp_path / "run", model, "--method", "loglikelihood") == 1
    (line,) = (text for text in capsys.readouterr().err.splitlines() if "failed" in text)
    assert line.startswith("error: 2 of 2 requests failed")
    assert "the model takes 64" in line
    assert "--num-fewshot" in line
