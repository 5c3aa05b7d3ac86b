"""Names, options and lists of providers: what is found, what is refused, and in which words."""

from __future__ import annotations

from hashlib import sha256

import pytest

from mbbq_gen.core.errors import MissingExtraError, UsageError
from mbbq_gen.core.records import Message
from mbbq_gen.providers.base import request_key
from mbbq_gen.providers.registry import list_models, open_provider
from tests.support.cases import cases


@pytest.mark.parametrize(
    ("name", "options", "message"), cases("providers/registry", "a_wrong_option_is_told_by_name_and_value")
)
def test_a_wrong_option_is_told_by_name_and_value(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        open_provider(name, options)
    assert str(caught.value) == message


def test_what_is_not_installed_is_listed_so_and_refused_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mbbq_gen.providers.base.find_spec", lambda _: None)
    entries = {entry.name: entry for entry in list_models()}
    assert not entries["transformers:smollm2"].installed
    with pytest.raises(MissingExtraError, match=r"transformers:a/b needs torch, transformers .*pip install 'mbbq"):
        open_provider("transformers:a/b")


def test_the_key_depends_on_all_that_shapes_an_answer_and_on_nothing_else() -> None:
    messages = [Message(role="user", content="Who?")]
    key = request_key("k", "m", {"a": 1, "b": 2}, messages)
    assert key == request_key("k", "m", {"b": 2, "a": 1}, list(messages))
    others = [
        request_key("x", "m", {"a": 1, "b": 2}, messages),
        request_key("k", "x", {"a": 1, "b": 2}, messages),
        request_key("k", "m", {"a": 1, "b": 3}, messages),
        request_key("k", "m", {"a": 1, "b": 2}, [Message(role="system", content="Who?")]),
        request_key("k", "m", {"a": 1, "b": 2}, [*messages, *messages]),
        request_key("k", "m", {"a": 1, "b": 2}, messages, "p1"),
    ]
    assert len({key, *others}) == 7
    assert key == sha256(b'["k","m",{"a":1,"b":2},[["user","Who?"]],null]').hexdigest()
