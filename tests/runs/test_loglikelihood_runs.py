from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest

from mbbq_gen import Run
from mbbq_gen.analysis.scores import score
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import NORMALISATIONS, Instance, Message, Method, Prompt, Request, Response, Split
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import (
    PromptSettings,
    answer_texts,
    as_continuations,
    label_answers,
    plan_orders,
    render_prompt,
)
from mbbq_gen.providers.responders import OracleProvider
from mbbq_gen.runs.extraction import extract_scored
from mbbq_gen.scoring.observations import observations_frame, observe
from mbbq_gen.storage.store import CompletedPrompt
from tests.conftest import FULL, Load
from tests.runs.test_oracle_proof import PUBLISHED, STARTER_LANGUAGES, is_equal
from tests.support.extraction import Capture, json_of, stderr_of
from tests.support.scoring import ORACLES_WITH_KNOWN_SCORES, expected_scores
from tests.support.stores import change, column, rows


def ask(folder: Path, *arguments: str, model: str = "oracle:stereotyped") -> Path:
    selection = ("--benchmark", "starter", "--languages", "en,es", "--variants", "letters", "--sample", "12")
    assert run_command_line(["run", str(folder), "--model", model, *selection, *arguments]) == 0
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ask(tmp_path_factory.mktemp("runs") / "both", "--method", "generate,loglikelihood,label-loglikelihood")


def test_every_question_is_asked_in_every_way(both: Path) -> None:
    kinds = "json_extract(record, '$.method'), json_extract(record, '$.variant')"
    found = rows(both, f"SELECT {kinds}, count(*) FROM prompts GROUP BY 1, 2 ORDER BY 1")
    assert found == [("generate", "letters", 48), ("label-loglikelihood", "letters", 48), ("loglikelihood", "open", 48)]
    settings = json.loads((both / "manifest.json").read_text())["config"]
    assert settings["method"] == ["generate", "loglikelihood", "label-loglikelihood"]
    assert (settings["variants"], settings["normalization"]) == (["letters"], "sum")
    assert RunConfig(**settings).scored_variants == ("open",)


def test_every_wording_of_unknown_in_the_language_is_an_answer(tmp_path: Path) -> None:
    folder = ask(tmp_path / "run", "--method", "loglikelihood", "--variants", "all")
    for language in ("en", "es"):
        questions = load_benchmark("starter", languages=[language])
        wordings = {instance.options[instance.unknown_index].text for instance in questions}
        assert len(wordings) > 1
        found = rows(folder, "SELECT record FROM prompts WHERE language = '" + language + "'")
        for (record,) in found:
            shown = Prompt.model_validate_json(record)
            instance = Run(folder).folder.open_store(read_only=True).instance(shown.instance_key)
            texts = {answer.text for answer in shown.continuations if answer.option == instance.unknown_index}
            assert texts == wordings


@pytest.mark.parametrize("normalise", [name for name in NORMALISATIONS if name != "pmi"])
def test_another_normalisation_asks_nothing(both: Path, capsys: Capture, normalise: str) -> None:
    before = rows(both, "SELECT * FROM responses")
    found = json_of(capsys, "score", both, "--normalization", normalise, "--n-resamples", 100)
    assert found["normalization"] == normalise
    assert rows(both, "SELECT * FROM responses") == before
    assert (f"loglikelihood:{normalise}+1",) in rows(both, "SELECT DISTINCT extractor FROM extractions")


def test_pmi_is_asked_for_from_the_beginning(tmp_path: Path, both: Path, capsys: Capture) -> None:
    folder = ask(tmp_path / "run", "--method", "loglikelihood", "--normalization", "pmi")
    assert rows(folder, "SELECT count(*) FROM option_scores WHERE unconditional_logprob IS NULL") == [(0,)]
    prior = rows(
        folder, "SELECT DISTINCT json_extract(record, '$.unconditional_prompt[0].content') FROM prompts ORDER BY 1"
    )
    assert prior == [("Answer:",), ("Respuesta:",)]
    assert "make a run with --normalization pmi" in stderr_of(capsys, "score", both, "--normalization", "pmi")


def test_ways_of_asking_are_compared_with_each_other(both: Path, capsys: Capture) -> None:
    found = json_of(capsys, "compare", both, "--across", "method", "--n-resamples", 100)
    assert [one["levels"] for one in found["comparisons"]] == [["generate", "label-loglikelihood", "loglikelihood"]] * 2
    for comparison in found["comparisons"]:
        assert comparison["within"]["language"] in ("en", "es")
        for pair in comparison["metrics"][0]["pairs"]:
            assert pair["difference"]["value"] == 0


def test_what_lists_no_options_has_no_places(both: Path, tmp_path: Path, capsys: Capture) -> None:
    items = Run(both).samples().filter(pl.col("method") == "loglikelihood")
    assert items.select("option_order", "label_style", "chosen_position").null_count().row(0) == (48, 48, 48)
    assert items["chosen_role"].null_count() == 0
    groups = json_of(capsys, "position-bias", both, "--n-resamples", 100)["groups"]
    models = {group["group"]["model"] for group in groups}
    assert models == {"oracle:stereotyped", "oracle:stereotyped (label-loglikelihood)"}
    scored = ask(tmp_path / "run", "--method", "loglikelihood", "--variants", "all")
    assert stderr_of(capsys, "position-bias", scored).count("\n") == 1


def test_a_model_that_only_writes_is_told(tmp_path: Path, capsys: Capture) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text('{"response": "A"}\n', encoding="utf-8")
    given = ["--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en"]
    said = stderr_of(capsys, "run", tmp_path / "r", *given, "--method", "loglikelihood")
    assert "--method loglikelihood" in said
    assert said.endswith(": generate\n")


@pytest.mark.parametrize(
    "said", ["--method=generate", "--sample=5", "--languages=tr", "--instances-field-map=fields.toml"]
)
def test_what_a_run_that_goes_on_would_not_hear_is_refused(both: Path, capsys: Capture, said: str) -> None:
    assert f"error: {said.partition('=')[0]} " in stderr_of(capsys, "run", both, said)


def scored_presentations(
    instances: list[Instance], resources: PackPaths, method: Method, prior: tuple[Message, ...] = ()
) -> list[tuple[Instance, Prompt]]:
    """Every question of a language, balanced, with all wordings of unknown that its questions have."""
    orders = plan_orders("balanced", map(SamplingUnit.of, instances), 11)
    pack = read_prompts(resources, instances[0].language)
    variant = pack.open_variant if method == "loglikelihood" else pack.by_id("letters")
    texts = sorted({instance.options[instance.unknown_index].text for instance in instances})
    found = []
    for instance in instances:
        (order,) = orders.orders(instance, 0)
        shown = render_prompt(instance, PromptSettings(variant), order)
        answers = answer_texts(instance, texts) if method == "loglikelihood" else label_answers(shown)
        found.append((instance, as_continuations(shown, method, answers, prior)))
    return found


def check_oracle(name: str, shown: list[tuple[Instance, Prompt]], normalise: str = "sum") -> None:
    """The oracle's scores by likelihood are what arithmetic says of what it writes."""
    provider, (how,) = OracleProvider(name), [known for known in NORMALISATIONS if known == normalise]

    def rows() -> Any:
        for instance, one in shown:
            record = instance.model_dump_json()
            request = Request(request_key="k", messages=one.messages, prompt=one, instance_record=record)
            response = Response(request_key="k", scores=provider.score(request))
            reading = extract_scored(CompletedPrompt(one, instance, response), how)
            yield observe(
                instance, one.option_order, reading, model=name, variant=one.variant, label_style="A", method=one.method
            )

    for group in score(observations_frame(rows()), ["split"], intervals=False).groups:
        part = [(instance, one.option_order) for instance, one in shown if instance.split == group.group["split"]]
        expected = expected_scores(name, part)
        for metric, row in group.metrics.items():
            assert is_equal(row.value, expected[metric]), (name, normalise, metric, row.value, expected[metric])


READ = PUBLISHED[:: 3 if FULL else 6]


@pytest.mark.parametrize("language", STARTER_LANGUAGES if FULL else STARTER_LANGUAGES[:6])
def test_oracles_on_starter(language: str, resources: PackPaths) -> None:
    instances = list(load_benchmark("starter", languages=[language], resources=resources))
    prior = (Message(role="user", content="Answer:"),)
    ways = (
        *((name, "loglikelihood") for name in NORMALISATIONS),
        ("sum", "label-loglikelihood"),
        ("sum", "first-token-logprobs"),
    )
    part = 3 if FULL else 18
    for number, name in enumerate(ORACLES_WITH_KNOWN_SCORES):
        normalise, method = ways[number % len(ways)]
        (known,) = (way for way in get_args(Method) if way == method)
        check_oracle(name, scored_presentations(instances[number % part :: part], resources, known, prior), normalise)


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "language", "split"), READ, ids=map("-".join, READ))
def test_oracles_on_published_data(
    benchmark: str, language: str, split: Split, resources: PackPaths, load_published: Load
) -> None:
    instances = load_published(benchmark, language, split)
    part = instances[:: max(1, len(instances) // (1500 if FULL else 300))]
    for name, normalise in zip(ORACLES_WITH_KNOWN_SCORES, [*NORMALISATIONS, "sum", "token"], strict=False):
        prior = (Message(role="user", content="Answer:"),)
        check_oracle(name, scored_presentations(part, resources, "loglikelihood", prior), normalise)


def test_it_goes_on_where_it_stopped_and_asks_nothing_twice(tmp_path: Path, capsys: Capture) -> None:
    folder = ask(tmp_path / "run", "--method", "generate,loglikelihood")
    before = rows(folder, "SELECT request_key, received_at FROM responses ORDER BY 1")
    (key,) = column(folder, "SELECT request_key FROM option_scores LIMIT 1")
    change(folder, *(f"DELETE FROM {table} WHERE request_key = '{key}'" for table in ("responses", "option_scores")))
    assert "95 answered already, 1 to go" in stderr_of(capsys, "run", folder, code=0)
    after = rows(folder, "SELECT request_key, received_at FROM responses ORDER BY 1")
    assert [row for row in after if row[0] != key] == [row for row in before if row[0] != key]
    assert rows(folder, f"SELECT count(*) > 3 FROM option_scores WHERE request_key = '{key}'") == [(1,)]


def test_a_run_does_not_go_on_with_another_method(both: Path, capsys: Capture) -> None:
    given = ["--model", "oracle:stereotyped", "--benchmark", "starter", "--languages", "en,es", "--variants", "letters"]
    said = stderr_of(capsys, "run", both, *given, "--sample", 12, "--method", "generate")
    assert "was made with generate,loglikelihood,label-loglikelihood" in said
