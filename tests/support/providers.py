"""What the tests of providers share: instances, prompts and requests of our own making, and a tiny model."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from mbbq_gen.core.records import Condition, Instance, Message, Polarity, Prompt, Request, Response, Role
from mbbq_gen.providers.base import ExecutionContext, Provider
from tests.support.cases import read_data
from tests.support.questions import question

TEXTS: dict[Role, str] = {"target": "The grandfather", "non_target": "The student", "unknown": "Can't be said"}


def make_instance(
    instance_id: str = "1",
    condition: Condition = "ambiguous",
    polarity: Polarity = "negative",
    answer: Role = "unknown",
    *,
    language: str = "en",
    roles: Sequence[Role] = ("non_target", "unknown", "target"),
) -> Instance:
    return question(
        benchmark="toy",
        language=language,
        instance_id=instance_id,
        template_id="keys",
        condition=condition,
        polarity=polarity,
        context="A grandfather and a student left the library. One of them had lost the keys.",
        question="Who forgets things?",
        options=[{"role": role, "text": TEXTS[role]} for role in roles],
        gold_role=answer,
    )


def make_unscorable_instance() -> Instance:
    """An instance with two people of no role: right is the second one."""
    return question(
        condition="disambiguated",
        context="Anna and Berta left the library. Berta had lost the keys.",
        options=[
            {"role": None, "text": "Anna"},
            {"role": None, "text": "Berta"},
            {"role": "unknown", "text": "Unclear"},
        ],
        gold_role=None,
        gold_index=1,
        has_single_target=False,
        no_target_reason="two targets",
    )


def make_request(
    instance: Instance | None = None,
    order: tuple[int, ...] = (0, 1, 2),
    labels: tuple[str, ...] = ("A", "B", "C"),
    *,
    prompt_id: str = "p1",
    text: str = "Who forgets things?",
    variant: str = "polite",
    messages: tuple[Message, ...] | None = None,
) -> Request:
    instance = instance or make_instance()
    messages = messages if messages is not None else (Message(role="user", content=text),)
    prompt = Prompt(
        prompt_id=prompt_id,
        instance_key=instance.key,
        language=instance.language,
        variant=variant,
        label_style=labels[0],
        option_order=order,
        option_labels=labels,
        messages=messages,
    )
    record = instance.model_dump_json()
    return Request(request_key=f"key of {prompt_id}", messages=messages, prompt=prompt, instance_record=record)


def answers(
    provider: Provider, requests: Iterable[Request], context: ExecutionContext | None = None
) -> dict[str, Response]:
    """All responses by request key; a key that comes twice is an error."""

    async def collect() -> dict[str, Response]:
        found: dict[str, Response] = {}
        async for response in provider.generate(requests, context or ExecutionContext()):
            assert response.request_key not in found
            found[response.request_key] = response
        await provider.aclose()
        return found

    return asyncio.run(collect())


LETTERS = "abcdefghijklmnopqrstuvwxyz ABC.?:'\n"
SPECIAL = ["<pad>", "<s>", "</s>", "<|turn|>", "<|end|>"]
ChatTemplate = Literal["with_default_system", "no_system", "bare", "thinking", "none"]

CHAT_TEMPLATES: dict[str, str] = read_data("providers/chat_templates.toml")


def make_tokenizer(template: str = "none") -> Any:
    """One token a letter."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {
        token: number for number, token in enumerate([*SPECIAL, "?", *dict.fromkeys(LETTERS.replace("?", ""))])
    }
    core = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="?",
        additional_special_tokens=["<|turn|>", "<|end|>"],
        chat_template=CHAT_TEMPLATES.get(template),
    )


def make_configuration(kind: str = "llama", **changes: Any) -> Any:
    """The configuration of a model with random weights that is small and yet of several minds."""
    import transformers

    sizes: dict[str, Any] = {"vocab_size": 48, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512, "pad_token_id": 0}
    sizes |= {"bos_token_id": 1, "eos_token_id": 2, "initializer_range": 0.5}
    if kind == "llama":
        return transformers.LlamaConfig(**sizes | changes)
    if kind == "qwen2":
        return transformers.Qwen2Config(**sizes | changes)
    if kind == "mistral":
        return transformers.MistralConfig(**sizes | changes)
    if kind == "gpt2":
        return transformers.GPT2Config(
            vocab_size=48, n_embd=32, n_layer=2, n_head=4, n_positions=512, initializer_range=0.5, eos_token_id=2
        )
    if kind == "bloom":
        return transformers.BloomConfig(vocab_size=48, hidden_size=32, n_layer=2, n_head=4, initializer_range=0.5)
    raise ValueError(kind)


def make_model(kind: str = "llama", **changes: Any) -> Any:
    import torch
    import transformers

    torch.set_num_threads(1)  # more would only wait for each other
    torch.manual_seed(7)
    with torch.device("cpu"):
        model = transformers.AutoModelForCausalLM.from_config(make_configuration(kind, **changes))
    model.generation_config = transformers.GenerationConfig()
    return model.float().eval()


def save_model(folder: Path, template: ChatTemplate = "with_default_system", **changes: Any) -> Path:
    """A folder as save_pretrained writes it; some letters end an answer, so that answers are of uneven length."""
    import transformers

    model = make_model("llama", **changes)
    model.generation_config = transformers.GenerationConfig(eos_token_id=[2, 7, 11, 19], pad_token_id=0)
    model.save_pretrained(folder)
    make_tokenizer(template).save_pretrained(folder)
    return folder


def make_token_lists(count: int, seed: int = 0) -> list[tuple[int, ...]]:
    """Prompts that share beginnings of uneven length, as those of a benchmark do; some of them are equal."""
    chance = random.Random(seed)
    stem = [chance.randrange(5, 48) for _ in range(40)]
    lists = [
        (*stem[: chance.randrange(0, 40)], *(chance.randrange(5, 48) for _ in range(chance.randrange(1, 12))))
        for _ in range(count)
    ]
    return [*lists, lists[0], lists[1][:1], lists[1][:2]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small model with a chat template."""
    return save_model(tmp_path_factory.mktemp("models") / "toy")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model without a chat template."""
    return save_model(tmp_path_factory.mktemp("models") / "base", "none")
