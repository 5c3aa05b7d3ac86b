from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, Response
from mbbq_gen.runs.extraction import extractor_for
from mbbq_gen.runs.follow_up import extract_reply, follow_up_question, follow_up_text
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import NONE_RULE, CompletedPrompt
from tests.fake_service.client import fake_server
from tests.support.cases import cases
from tests.support.dialogue import VAGUE, Dialogue, dialogue
from tests.support.extraction import Capture, call, json_of, start, succeed
from tests.support.prices import write_prices
from tests.support.providers import make_request
from tests.support.stores import column

STARTER = ("--benchmark", "starter", "--variants", "letters", "--splits", "bias")
READ = ("--sample", "96", "--follow-up", "unread")
INDIRECT = ("--model", "oracle:perfect", "--model-arg", "speech=indirect")


def run(capsys: Capture, path: Path, *more: object, code: int = 0) -> str:
    found, _, err = call(capsys, "run", path, *more)
    assert found == code, err
    return err


def at(server: Dialogue, *more: object) -> tuple[object, ...]:
    return ("--model", "openai:fake", "--base-url", server.base_url, *STARTER, "--languages", "en", *more)


def scores(capsys: Capture, path: Path, *more: object) -> dict[str, dict[str, Any]]:
    out = succeed(capsys, "score", path, "--json", *more)
    return {group["group"]["language"]: group for group in json.loads(out)["groups"]}


def report(capsys: Capture, path: Path) -> dict[str, Any]:
    (found,) = json_of(capsys, "score", path, "--metric", "accuracy_ambiguous")["follow_ups"]
    return dict(found)


# --- what comes of it -------------------------------------------------------------------------------------------------


def test_a_model_that_knows_what_it_meant_is_read_whole(capsys: Capture, run_path: Path) -> None:
    run(capsys, run_path, *INDIRECT, *STARTER, "--languages", "en,ta,zh", *READ)
    first, after = scores(capsys, run_path), scores(capsys, run_path, "--answers", "follow-up")
    assert set(first) == {"en", "ta", "zh"}
    for language, group in after.items():
        assert first[language]["metrics"]["parse_rate"]["value"] == 0
        found = {name: group["metrics"][name]["value"] for name in group["metrics"]}
        assert (found["parse_rate"], found["accuracy_ambiguous"], found["accuracy_disambiguated"]) == (1, 1, 1)
        assert (found["mbbq_bias_ambiguous"], found["diff_bias_disambiguated"]) == (0, 0)
        bounds = first[language]["metrics"]["accuracy_ambiguous"]["bounds"]
        assert (bounds["low"], bounds["high"]) == (0, 1)
    found = report(capsys, run_path)
    assert all(group["read"] == 0 and group["read_with_follow_up"] == group["answers"] for group in found["groups"])
    assert found["findings"] == []


@pytest.mark.usefixtures("api_keys")
def test_a_model_that_chose_nothing_stays_unread(capsys: Capture, run_path: Path) -> None:
    with dialogue("none") as server:
        run(capsys, run_path, *at(server, "--sample", 20, "--follow-up", "unread"))
    (group,) = report(capsys, run_path)["groups"]
    assert group["none"] == group["replied"] == group["followed_up"] == group["answers"] == 20
    assert group["read_with_follow_up"] == 0
    assert all(
        group["metrics"]["parse_rate"]["value"] == 0
        for group in scores(capsys, run_path, "--answers", "follow-up").values()
    )


def test_a_model_that_turns_to_the_stereotype_is_reported(capsys: Capture, tmp_path: Path, run_path: Path) -> None:
    given = ["--model", "oracle:stereotyped", "--model-arg", "speech=indirect", *STARTER, "--languages", "en"]
    run(capsys, run_path, *given, "--sample", 60, "--follow-up", "unread")
    found = report(capsys, run_path)
    (group,) = found["groups"]
    assert group["pressed"]["value"] == 1
    (shares,) = (shares for shares in group["choices"] if shares["source"] == "follow-up")
    assert shares["biased"]["value"] == 1
    assert len(found["findings"]) == 1
    code, out, _ = call(capsys, "report", run_path)
    assert (code, found["findings"][0] in " ".join(out.split())) == (0, True)
    page = tmp_path / "report.html"
    assert call(capsys, "report", run_path, "-o", page)[0] == 0
    assert found["findings"][0].partition(":")[2].strip()[:40] in page.read_text(encoding="utf-8")


# --- the turn ---------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("api_keys")
def test_the_conversation_goes_on_as_it_was(capsys: Capture, run_path: Path) -> None:
    with dialogue("B") as server:
        run(capsys, run_path, *at(server, "--sample", 12, "--label-style", "(A)"))
        before = scores(capsys, run_path)
        assert not server.bodies
        run(capsys, run_path, "--follow-up", "unread")
        for _ in range(2):
            run(capsys, run_path)
        assert scores(capsys, run_path) == before
    assert len(server.bodies) == 12
    assert {*server.first.values(), *server.second.values()} == {1}
    assert server.first.keys() == server.second.keys()
    for body in server.bodies:
        question, answer, turn = body["messages"]
        assert [one["role"] for one in body["messages"]] == ["user", "assistant", "user"]
        assert question["content"] in server.first
        assert answer["content"] == VAGUE
        assert "(A), (B)" in turn["content"]
        assert body["max_completion_tokens" if "max_completion_tokens" in body else "max_tokens"] == 64
    status = json_of(capsys, "status", run_path)
    assert status["follow_ups"] == {"requests": 12, "answered": 12, "failed": 0, "read": 12, "none": 0}
    assert (status["requests"], status["answered"]) == (24, 24)
    table = Run(run_path).samples()
    assert set(table["follow_up_response"]) == {"B"}
    assert set(table["follow_up_reason"]) == {"unread"}
    assert set(table["follow_up_position"]) == {1}
    assert set(table["outcome"]) == {"unparsed"}
    assert set(table["response"]) == {VAGUE}


# --- money, kills, batches --------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("api_keys")
def test_a_kill_pays_nothing_twice(capsys: Capture, run_path: Path) -> None:

    def slow(_: str) -> str:
        time.sleep(0.03)
        return "A"

    with dialogue(slow) as server:
        run(capsys, run_path, *at(server, "--sample", 200))
        process = start("run", run_path, "--follow-up", "unread", "--max-connections", "4")
        while len(server.bodies) < 40:
            assert process.poll() is None
            time.sleep(0.02)
        process.kill()
        process.communicate()
        (kept,) = column(
            run_path, "SELECT count(*) FROM follow_ups u JOIN responses r ON r.request_key = u.request_key"
        )
        assert 0 < kept < 200
        run(capsys, run_path)
    repeated = sum(count - 1 for count in server.second.values())
    assert len(server.second) == 200
    assert repeated <= 40 - kept + 8, "only what was under way may be asked again"
    (group,) = report(capsys, run_path)["groups"]
    assert group["read_with_follow_up"] == 200


@pytest.mark.usefixtures("api_keys")
@pytest.mark.parametrize("storage", [(), ("--storage", "parquet")])
def test_one_limit_holds_for_both_turns(capsys: Capture, tmp_path: Path, storage: tuple[str, ...]) -> None:
    path, prices = tmp_path / "run", write_prices(tmp_path)
    with dialogue("A") as server:
        given = at(server, "--sample", 30, "--prices", prices, "--follow-up", "unread", "--max-tokens", 20, *storage)
        run(capsys, path, *given, "--max-cost", 6_000, code=1)
        assert server.input_tokens + server.output_tokens <= 6_000
        assert 0 < sum(server.second.values()) < 30
        run(capsys, path, "--max-cost", 100_000)
        assert set(server.second.values()) == {1}
        bill = json_of(capsys, "status", path)["cost_report"]
        paid = sum(line["input_tokens"] + line["output_tokens"] for line in bill["lines"])
        assert paid == server.input_tokens + server.output_tokens
    (group,) = report(capsys, path)["groups"]
    assert group["read_with_follow_up"] == 30


@pytest.mark.usefixtures("api_keys")
def test_follow_ups_are_a_batch_of_their_own(capsys: Capture, run_path: Path) -> None:
    with fake_server({"answers": {"fixed": "A", "oracle": "perfect", "speech": "indirect"}}, run=run_path) as server:
        given = ["--model", "openai:fake", "--base-url", server.openai, *STARTER, "--languages", "en", "--sample", 20]
        run(capsys, run_path, *given, "--batch", "--follow-up", "unread")
        for _ in range(8):
            run(capsys, run_path)
    with RunFolder(run_path).open_store(read_only=True) as store:
        assert store.query("SELECT count(*) FROM batches WHERE state = 'collected'").fetchone()[0] == 2
        assert store.progress().answered == store.progress().requests == 40
    assert report(capsys, run_path)["groups"][0]["read_with_follow_up"] == 20


# --- where it is refused, and other doors -----------------------------------------------------------------------------


@pytest.mark.parametrize(("more", "said"), cases("runs/follow_up", "it_is_refused_in_one_line"))
def test_it_is_refused_in_one_line(capsys: Capture, tmp_path: Path, more: list[str], said: str) -> None:
    code, out, err = call(capsys, "run", tmp_path / "run", "--benchmark", "starter", "--languages", "en", *more)
    assert (code, out, len(err.strip().splitlines()), said in err) == (2, "", 1, True), err


def test_a_run_without_follow_ups_has_no_such_scores(capsys: Capture, run_path: Path) -> None:
    run(capsys, run_path, "--model", "oracle:perfect", *STARTER, "--languages", "en", "--sample", 8)
    code, _, err = call(capsys, "score", run_path, "--answers", "follow-up")
    assert (code, "--follow-up unread" in err) == (2, True)
    code, out, _ = call(capsys, "score", run_path, "--json")
    assert json.loads(out)["follow_ups"] == []


# --- reading the reply ------------------------------------------------------------------------------------------------


def read(text: str, language: str = "en") -> Extraction:
    prompt, said = make_request().prompt, PackPaths()
    found = follow_up_text(said, language)
    messages = (make_request().messages[0].model_copy(update={"content": follow_up_question(prompt, found)}),)
    shown = prompt.model_copy(update={"language": language, "messages": messages})
    response = Response(request_key="x", text=text, finish_reason="stop")
    reply = CompletedPrompt(shown, make_request().instance, response)
    return extract_reply(reply, found.none, extractor_for("rules", language, said))


@pytest.mark.parametrize("language", sorted(name for name in PackPaths().names("prompts") if "/" not in name))
def test_labels_and_none_are_read_in_every_language(language: str) -> None:
    none = follow_up_text(PackPaths(), language).none
    labels = make_request().prompt.option_labels
    for place, label in enumerate(labels):
        for text in (label, f"{label}.", f"**{label}**", f'"{label}"'):
            assert read(text, language).option == place, text
    for text in (none, f"{none}.", f'"{none}"', f"**{none.upper()}**", f"\n {none}\n"):
        found = read(text, language)
        assert (found.rule, found.option, found.outcome) == (NONE_RULE, None, "unparsed"), text


@pytest.mark.parametrize(
    ("text", "option"), [("None, I meant B.", 1), ("none of this helps; C", 2), ("nonetheless, B", 1), ("Hm.", None)]
)
def test_none_beside_a_label_is_no_none(text: str, option: int | None) -> None:
    found = read(text)
    assert found.rule != NONE_RULE
    assert found.option == option


def test_a_body_without_a_conversation_is_refused(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "endpoint.toml"
    file.write_text(
        'url = "http://127.0.0.1:9/x"\n[body]\nprompt = "{prompt}"\n[answer]\ntext = "text"\n', encoding="utf-8"
    )
    given = ["--model", f"http:{file}", *STARTER, "--languages", "en", "--follow-up", "unread"]
    code, _, err = call(capsys, "run", tmp_path / "run", *given)
    assert (code, "it takes no second turn" in err) == (2, True), err
