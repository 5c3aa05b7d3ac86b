from __future__ import annotations

import logging

import pytest

pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.core.records import Message
from mbbq_gen.providers.local.chat_format import ChatFormatter, PromptError
from tests.support.providers import make_tokenizer

USER = Message(role="user", content="who?")
SYSTEM = Message(role="system", content="answer briefly")
ASKED = "<|turn|>user\nwho?<|end|>\n<|turn|>assistant\n"
KIND = "<|turn|>system\nbe kind<|end|>\n"
BRIEF = "<|turn|>system\nanswer briefly<|end|>\n"


@pytest.mark.parametrize(
    ("template", "messages", "expected"),
    [
        ("with_default_system", [USER], f"<s>{KIND}{ASKED}"),
        ("with_default_system", [SYSTEM, USER], f"<s>{BRIEF}{ASKED}"),
        ("bare", [USER], f"<s>{ASKED}"),
        ("no_system", [USER], f"<s>{ASKED}"),
        ("none", [SYSTEM, USER], "answer briefly\n\nwho?"),
    ],
)
def test_the_text_that_the_model_reads(template: str, messages: list[Message], expected: str) -> None:
    assert ChatFormatter(make_tokenizer(template), "toy").text(messages) == expected


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
