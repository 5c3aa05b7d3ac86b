from __future__ import annotations

import logging

import pytest

pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Message
from mbbq_gen.providers.local.chat_format import ChatFormatter, PromptError
from tests.support.providers import make_tokenizer

USER = Message(role="user", content="who?")
SYSTEM = Message(role="system", content="answer briefly")
ASKED = "<|turn|>user\nwho?<|end|>\n<|turn|>assistant\n"
KIND = "<|turn|>system\nbe kind<|end|>\n"
BRIEF = "<|turn|>system\nanswer briefly<|end|>\n"


@pytest.mark.parametrize(
    ("template", "system", "messages", "expected"),
    [
        ("with_default_system", "default", [USER], f"<s>{KIND}{ASKED}"),
        ("with_default_system", "default", [SYSTEM, USER], f"<s>{BRIEF}{ASKED}"),
        ("with_default_system", "none", [USER], f"<s>{ASKED}"),
        ("with_default_system", "none", [SYSTEM, USER], f"<s>{BRIEF}{ASKED}"),
        ("with_default_system", "answer briefly", [USER], f"<s>{BRIEF}{ASKED}"),
        ("with_default_system", "be quick", [SYSTEM, USER], f"<s>{BRIEF}{ASKED}"),
        ("bare", "default", [USER], f"<s>{ASKED}"),
        ("bare", "none", [USER], f"<s>{ASKED}"),
        ("bare", "answer briefly", [USER], f"<s>{BRIEF}{ASKED}"),
        ("no_system", "default", [USER], f"<s>{ASKED}"),
        ("no_system", "none", [USER], f"<s>{ASKED}"),
        ("none", "default", [SYSTEM, USER], "answer briefly\n\nwho?"),
        ("none", "none", [USER], "who?"),
        ("none", "answer briefly", [USER], "answer briefly\n\nwho?"),
    ],
)
def test_the_text_that_the_model_reads(template: str, system: str, messages: list[Message], expected: str) -> None:
    assert ChatFormatter(make_tokenizer(template), "toy", "auto", system).text(messages) == expected


def test_a_system_prompt_is_refused_at_once_where_the_template_takes_none() -> None:
    with pytest.raises(ProviderError, match=r"'answer briefly' is not possible .*no system role here.*'default'"):
        ChatFormatter(make_tokenizer("no_system"), "toy", "auto", "answer briefly")


def test_messages_that_the_template_refuses_are_one_bad_request() -> None:
    with pytest.raises(PromptError, match="the chat template refuses the messages: no system role here"):
        ChatFormatter(make_tokenizer("no_system"), "toy").tokens([SYSTEM, USER])


@pytest.mark.parametrize(("template", "expected"), [("none", 1), ("bare", 0)])
def test_the_lack_of_a_template_is_said_once(template: str, expected: int, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        formatter = ChatFormatter(make_tokenizer(template), "toy")
        for _ in range(3):
            formatter.tokens([USER])
    assert len(caplog.records) == expected
    assert [record.message for record in caplog.records] == expected * [
        "toy: has no chat template; the messages are sent as plain text (base models: --method loglikelihood)"
    ]


def test_nothing_to_read_is_one_bad_request() -> None:
    with pytest.raises(PromptError, match="the prompt is empty"):
        ChatFormatter(make_tokenizer(), "toy", "plain").tokens([Message(role="user", content="")])


def test_a_template_with_an_inseparable_system_prompt_refuses_none() -> None:
    tokenizer = make_tokenizer()
    tokenizer.chat_template = (
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}"
        "<s>you are a kind helper of everybody: {{ messages[0]['content'] }}"
    )
    with pytest.raises(ProviderError, match=r"toy: system 'none' is not possible .*; leave it at 'default'"):
        ChatFormatter(tokenizer, "toy", "auto", "none")
