from __future__ import annotations

import json
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.core.errors import ProviderError
from mbbq_gen.providers.base import NEUTRAL_SAMPLING
from mbbq_gen.providers.http.servers import known_servers
from mbbq_gen.providers.responders import OracleProvider
from mbbq_gen.runs.executor import TruncationMonitor
from tests.runs.test_oracle_proof import is_equal
from tests.support.api import ask, provider, requests
from tests.support.cases import cases, known
from tests.support.scoring import expected_scores
from tests.support.servers import SERVERS, ServerCase, serving


def of(field: str) -> pytest.MarkDecorator:
    cases = [case for case in SERVERS if getattr(case, field)]
    return pytest.mark.parametrize("case", cases, ids=[case.name for case in cases])


def test_every_server_of_the_table_has_a_case() -> None:
    assert {case.name for case in SERVERS} == {entry.name for entry in known_servers()}


@pytest.mark.parametrize(
    ("case", "oracle"),
    list(zip(SERVERS, cycle(("perfect", "stereotyped", "first_option", "always_unknown")))),
    ids=[case.name for case in SERVERS],
)
def test_an_oracle_behind_a_server_scores_exactly(case: ServerCase, oracle: str, tmp_path: Path) -> None:
    answers: dict[str, str] = {}
    with serving(case, lambda body: answers[json.dumps(body["messages"], sort_keys=True)]) as server:
        fields: dict[str, Any] = {"benchmark": "starter", "languages": "en", "variants": "letters", "sample": 16}
        run = Run.create(tmp_path / "run", model=f"openai:{case.model}", base_url=f"{server.root}/v1", **fields)
        with run.folder.open_store(read_only=True) as store:
            planned = list(store.pending())
        for request in planned:
            turns = [{"role": message.role, "content": message.content} for message in request.messages]
            answers[json.dumps(turns, sort_keys=True)] = OracleProvider(oracle).answer(request)
        run.execute()
    run = Run(tmp_path / "run")
    for group in run.scores(("split",), confidence_level=None).groups:
        shown = [
            (request.instance, request.prompt.option_order)
            for request in planned
            if request.instance.split == group.group["split"]
        ]
        expected = expected_scores(oracle, shown)
        found = {name: row.value for name, row in group.metrics.items()}
        assert {name: value for name, value in found.items() if not is_equal(value, expected[name])} == {}
    assert set(run.samples()["reasoning"]) == {"Hm." if case.reasoning else None}
    info: Any = run.manifest.runtime_info
    assert info["server"]["name"] == case.name
    assert info["sampling"].keys() == {"temperature", *NEUTRAL_SAMPLING}
    assert {name: value for name, value in info["sampling"].items() if value is not None}.items() <= {
        "temperature": 0.0,
        **NEUTRAL_SAMPLING,
    }.items()


@of("refused")
def test_a_refused_parameter_is_left_out_once_and_recorded(case: ServerCase) -> None:
    assert case.refused is not None
    name = known(case.refused.field)
    entry = next(entry for entry in known_servers() if entry.name == case.name)
    sends = name in entry.fields
    notices: list[str] = []
    with serving(case, lambda _: "A", refuses=case.refused) as server:
        asked = provider(f"openai:{case.model}", base_url=f"{server.root}/v1", max_connections=1)
        assert [response.text for response in ask(asked, requests(3), notices)] == ["A"] * 3
        posts = [json.loads(heard.body) for heard in server.heard if heard.method == "POST"]
        with pytest.raises(ProviderError, match=name):
            ask(provider(f"openai:{case.model}", base_url=f"{server.root}/v1", **{name: 0.5}), requests(1), [])
    info: Any = asked.runtime_info()
    assert sum(name in body for body in posts) == sends
    assert sum(name in notice for notice in notices if str(entry.unpinned) not in notice) == sends
    assert name not in info["sampling_sent"]
    assert not sends or info["sampling"][name] is None


@of("ignores")
def test_what_a_server_ignores_is_not_sent_and_not_claimed(case: ServerCase) -> None:
    entry = next(entry for entry in known_servers() if entry.name == case.name)
    assert set(entry.fields).isdisjoint(case.ignores)
    for name in set(case.ignores) & NEUTRAL_SAMPLING.keys():
        with serving(case, lambda _: "A") as server:
            asked = provider(f"openai:{case.model}", base_url=f"{server.root}/v1", **{name: 1})
            with pytest.raises(ProviderError, match=name):
                ask(asked, requests(1), [])
            assert [heard.path for heard in server.heard if heard.method == "POST"] == []


@of("too_long")
def test_a_prompt_that_is_too_long_is_a_failure_of_its_own(case: ServerCase) -> None:
    assert case.too_long is not None
    with serving(case, lambda _: "A", case.too_long) as server:
        asked = provider(f"openai:{case.model}", base_url=f"{server.root}/v1", max_connections=1)
        first, second = ask(asked, requests(2), [])
    assert str(first.error).startswith("too long for the context window")
    assert second.text == "A"


@of("loading")
def test_a_model_that_is_loading_is_waited_for(case: ServerCase) -> None:
    assert case.loading is not None
    with serving(case, lambda _: "A", case.loading) as server:
        asked = provider(f"openai:{case.model}", base_url=f"{server.root}/v1", max_connections=1)
        assert [response.text for response in ask(asked, requests(2), [])] == ["A", "A"]


def test_cut_answers_are_said_early_and_at_the_end() -> None:
    case = next(case for case in SERVERS if case.name == "vllm")
    said: list[str] = []
    with serving(case, lambda _: "A and", finish="length") as running:
        asked = provider(f"openai:{case.model}", base_url=f"{running.root}/v1", max_tokens=5)
        cuts = TruncationMonitor(asked, said.append)
        responses = ask(asked, requests(60), [])
    cuts.count(responses[:4])
    assert said == []
    cuts.count(responses[4:])
    cuts.sum_up()
    assert [("the first 5" in line, "60 of 60" in line) for line in said] == [(True, False), (False, True)]
    assert all("raise --max-tokens" in line for line in said)


@pytest.mark.parametrize(
    ("name", "options", "place", "sent"),
    cases("providers/server_cases", "a_sampling_option_has_one_name_for_every_kind"),
)
def test_a_sampling_option_has_one_name_for_every_kind(
    name: str, options: dict[str, Any], place: tuple[str, ...], sent: dict[str, Any]
) -> None:
    asked = provider(name, **options)
    body: Any = asked.body_of(requests(1)[0])
    for key in place:
        body = body[key]
    assert {key: body.get(key) for key in sent} == sent
    assert options.items() <= asked.settings.items() | {"top_k": 0}.items()
