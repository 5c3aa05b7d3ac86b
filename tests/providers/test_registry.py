"""Names, options and lists of providers: what is found, what is refused, and in which words."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from mbbq_gen.core.errors import MissingExtraError, ProviderError, UsageError
from mbbq_gen.core.records import Message
from mbbq_gen.providers.base import request_key
from mbbq_gen.providers.registry import list_models, open_provider


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("oracle:random", {"sed": 1}, "unknown option of oracle 'sed'; did you mean 'seed'?"),
        (
            "oracle:random",
            {"seed": "-1"},
            "oracle: option seed: Input should be greater than or equal to 0 (value: '-1')",
        ),
        (
            "transformers:a/b",
            {"template_args": "odd"},
            "transformers: option template_args: not JSON: Expecting value at character 1 (value: 'odd')",
        ),
        ("scripted:x", {"seed": 1}, "scripted: takes no options; leave out 'seed'"),
    ],
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


def test_third_parties_add_a_kind_by_an_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    metadata = tmp_path / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(
        "[mbbq_gen.providers]\n"
        "parrot = mbbq_gen.providers.oracles:OracleProvider\n"
        "broken = acme_is_not_there:Provider\n"
        "oracle = acme_is_not_there:Usurper\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert open_provider("parrot:perfect").model == "perfect"
    assert "parrot:MODEL" in {entry.name for entry in list_models()}
    assert open_provider("oracle:perfect").kind == "oracle"
    with pytest.raises(ProviderError, match=r"provider 'broken' of acme 1\.0 can't be imported \(acme_is_not_there"):
        open_provider("broken:x")


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
