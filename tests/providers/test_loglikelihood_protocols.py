"""The papers' likelihood protocols, against naive implementations that share no code with ours.

EsBBQ and CaBBQ (arXiv:2507.11216): the two people and every wording of "unknown" are answers; the one with the
highest log-likelihood is chosen, and any of the wordings stands for "unknown". BharatBBQ (arXiv:2508.07090): the
answer with the highest mean log-likelihood of its tokens, without and with two solved examples.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.records import Instance


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("torch", reason="needs the extra: pip install 'mbbq-gen[local]'")
    pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")
    from tests.support.providers import save_model

    return save_model(tmp_path_factory.mktemp("models") / "base", "none", max_position_embeddings=4096)


def naive_sum(model: Any, tokenizer: Any, prompt: str, answer: str) -> tuple[float, int]:
    """Log-probability of an answer behind a prompt, in one plain forward, and its tokens."""
    import torch

    before, after = tokenizer(prompt)["input_ids"], tokenizer(f" {answer}")["input_ids"]
    with torch.inference_mode():
        likely = torch.log_softmax(model(torch.tensor([before + after])).logits[0].double(), dim=-1)
    return sum(float(likely[len(before) + place - 1, token]) for place, token in enumerate(after)), len(after)


@pytest.mark.parametrize(("normalise", "shots"), [("sum", 0), ("token", 0), ("token", 2)])
def test_a_whole_run_chooses_as_a_naive_one(base: Path, run_path: Path, normalise: str, shots: int) -> None:
    """Prompts put together by hand, every answer in a forward of its own, the highest number chosen."""
    from tests.support.providers import make_model, make_tokenizer

    arguments = ("--benchmark", "starter", "--languages", "en", "--sample", "6", "--splits", "bias", "--seed", "3")
    how = ("--method", "loglikelihood", "--normalization", normalise, "--num-fewshot", str(shots), "--device", "cpu")
    assert run_command_line(["run", str(run_path), "--model", f"transformers:{base}", *arguments, *how]) == 0
    questions = {one.key: one for one in load_benchmark("starter", languages=["en"], splits=["bias"])}
    unknowns = {one.options[one.unknown_index].text for one in questions.values()}
    model, tokenizer = make_model(max_position_embeddings=4096), make_tokenizer()
    with Run(run_path).folder.open_store(read_only=True) as store:
        keys = store.query("SELECT request_key FROM prompts")
        prompts = {request.prompt.instance_key: request.prompt for request in (store.request(key) for (key,) in keys)}
    rows = Run(run_path).samples().to_dicts()
    assert len(rows) == 6
    for row in rows:
        asked = questions[row["instance_key"]]
        examples = [questions[key] for key in prompts[asked.key].num_fewshot]
        assert len(examples) == shots
        told = [f"{opened(one)} {one.options[one.gold_index or 0].text}" for one in examples]
        prompt = "\n\n".join([*told, opened(asked)])
        found: dict[str, float] = {}
        for option in asked.options:
            for text in unknowns if option.role == "unknown" else [option.text]:
                total, count = naive_sum(model, tokenizer, prompt, text)
                worth = total / count if normalise == "token" else total
                found[str(option.role)] = max(worth, found.get(str(option.role), worth))
        assert row["chosen_role"] == max(found, key=lambda role: found[role])


def opened(instance: Instance) -> str:
    return f"Text: {instance.context}\n\nQuestion: {instance.question}\n\nAnswer:"
