from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import pytest

from mbbq_gen.core.errors import MissingExtraError, ProviderError, UsageError
from mbbq_gen.core.records import Message
from mbbq_gen.providers.base import request_key
from mbbq_gen.providers.registry import list_models, open_provider
from tests.support.cases import cases
from tests.support.extraction import Capture, json_of, stderr_of


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


PACKAGE = Path(__file__).parent.parent / "third_party"
SELECTION = ["--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "12"]


@pytest.fixture
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PACKAGE)


@pytest.mark.usefixtures("_installed")
def test_a_provider_of_another_package_is_listed_and_runs(tmp_path: Path, capsys: Capture) -> None:
    assert {entry.name: entry.summary for entry in list_models()}["parrot:MODEL"] == "from parrot-provider 1.0"
    run, methods = str(tmp_path / "run"), ["--method", "generate,label-loglikelihood", "--model-arg", "times=2"]
    done = json_of(capsys, "run", run, "--model", "parrot:B", *SELECTION, *methods)
    assert done["answered"] == done["requests"] > 24
    assert len(json_of(capsys, "score", run, "--group-by", "method")["groups"]) == 4


@pytest.mark.usefixtures("_installed")
def test_what_it_does_not_declare_is_refused(tmp_path: Path, capsys: Capture) -> None:
    for wrong, words in (
        (["--method", "loglikelihood"], "it supports: generate, label-loglikelihood"),
        (["--reasoning-effort", "low"], "parrot:B has no setting for reasoning effort"),
        (["--model-arg", "times=0"], "parrot: option times"),
    ):
        assert words in stderr_of(capsys, "run", tmp_path / "run", "--model", "parrot:B", *SELECTION, *wrong)


@pytest.mark.usefixtures("_installed")
def test_a_package_can_replace_no_kind_of_ours_and_its_faults_are_told() -> None:
    assert open_provider("oracle:perfect").kind == "oracle"
    with pytest.raises(ProviderError, match=r"provider 'broken' of parrot-provider 1\.0 can't be imported \(parrot_is"):
        open_provider("broken:x")


def test_the_package_of_a_third_party_is_the_one_of_the_docs(repository: Path) -> None:
    page = (repository / "docs" / "guides" / "add-a-provider.md").read_text(encoding="utf-8")
    source = (PACKAGE / "parrot_provider.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 60
    assert source.partition("\n\n")[2] in page
