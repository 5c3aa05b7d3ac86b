from __future__ import annotations

import json
import random
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import Instance
from tests.support.extraction import Capture, call

WORDINGS = ("No se sabe", "Falta contexto", "No lo sé")


def line(
    instance: Instance,
    number: int,
    numbers: dict[str, float],
    alone: dict[str, float] | None = None,
    prompt: str | None = None,
) -> dict[str, Any]:
    """A line as lm-eval logs it: every number a text, a request for each answer, those without a question last."""
    asked = prompt or f"Contexto: {instance.context}\nPregunta: {instance.question}\nRespuesta:"
    pairs = [(asked, f" {text}", value) for text, value in numbers.items()]
    pairs += [("", f" {text}", value) for text, value in (alone or {}).items()]
    return {
        "doc_id": number,
        "doc": {"context": instance.context, "question": instance.question}
        | {f"ans{place}": option.text for place, option in enumerate(instance.options)},
        "arguments": {f"gen_args_{n}": {"arg_0": one, "arg_1": two} for n, (one, two, _) in enumerate(pairs)},
        "resps": [[[str(value), "False"]] for _, _, value in pairs],
    }


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    log = folder / "samples_esbbq_2026-01-01T00-00-00.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return log


def do_import(capsys: Capture, log: Path, run: Path) -> tuple[int, str, str]:
    return call(capsys, "import", "--from", "lm-eval", log, "-o", run, "--benchmark", "starter", "--languages", "es")


@pytest.fixture(scope="module")
def instances() -> list[Instance]:
    return list(load_benchmark("starter", languages=["es"], splits=["bias"]))[::9]


def people(instance: Instance) -> list[str]:
    return [option.text for option in instance.options if option.role != "unknown"]


def test_every_wording_of_unknown_stands_for_it(
    capsys: Capture, tmp_path: Path, run_path: Path, instances: list[Instance]
) -> None:
    chance = random.Random(2)
    told = [
        {text: -chance.uniform(1, 20) for text in [*people(instance), *WORDINGS]} for instance in instances
    ]  # fmt: skip
    log = write(tmp_path, [line(*pair, told[pair[1]]) for pair in zip(instances, range(len(told)), strict=True)])
    assert do_import(capsys, log, run_path)[0] == 0
    rows = {row["instance_key"]: row for row in Run(run_path).samples().to_dicts()}
    assert len(rows) == len(instances) > 20
    for instance, numbers in zip(instances, told, strict=True):
        best = max(numbers, key=lambda text: numbers[text])
        roles = {option.text: option.role for option in instance.options if option.role != "unknown"}
        row = rows[instance.key]
        assert row["chosen_role"] == roles.get(best, "unknown")
        assert (row["method"], row["variant"]) == ("loglikelihood", "esbbq")
    settings = Run(run_path).manifest.config
    assert (settings.method, settings.scored_variants) == (("loglikelihood",), ("esbbq",))
    code, out, _ = call(capsys, "score", run_path, "--json", "--normalization", "char", "--n-resamples", 100)
    assert (code, json.loads(out)["normalization"]) == (0, "char")
    code, _, err = call(capsys, "score", run_path, "--normalization", "token")
    assert (code, len(err.splitlines())) == (2, 1)
    assert "token needs the answers' tokens" in err


def test_likelihoods_without_the_question_are_for_pmi(
    capsys: Capture, tmp_path: Path, instances: list[Instance]
) -> None:
    instance, run = instances[0], tmp_path / "run"
    first, second = people(instance)
    numbers, alone = {first: -5.0, second: -9.0, "No se sabe": -20.0}, {first: -1.0, second: -8.0, "No se sabe": -2.0}
    assert do_import(capsys, write(tmp_path, [line(instance, 0, numbers, alone)]), run)[0] == 0
    with sqlite3.connect(run / "run.sqlite") as store:
        statement = "SELECT text, logprob, unconditional_logprob, tokens FROM option_scores ORDER BY number"
        found = store.execute(statement).fetchall()
    assert found == [(text, numbers[text], alone[text], None) for text in numbers]
    call(capsys, "score", run, "--normalization", "pmi")
    with sqlite3.connect(run / "run.sqlite") as store:
        (place,) = store.execute("SELECT option FROM extractions WHERE extractor = 'loglikelihood:pmi+1'").fetchone()
    assert instance.options[place].text == second  # −1 against −4 and −18


def test_answers_of_another_question_are_told(capsys: Capture, tmp_path: Path, instances: list[Instance]) -> None:
    row = line(instances[0], 0, {"Fulano": -2.0, "Mengano": -1.0, "No se sabe": -3.0})
    code, _, err = do_import(capsys, write(tmp_path, [row]), tmp_path / "run")
    assert code == 1
    assert "the question is known, but not with these options" in err


@pytest.mark.parametrize(
    "change",
    [
        {"arguments": None},
        {"arguments": 7},
        {"arguments": [["only a prompt"], ["two"]]},
        {"resps": [[["much", "False"]], [["nan", "False"]]]},
        {"resps": [[["-1.0", "False"]]] * 2},
    ],
)
def test_numbers_without_their_answers_are_no_words(
    capsys: Capture, tmp_path: Path, instances: list[Instance], change: dict[str, Any]
) -> None:
    row = line(instances[0], 0, dict.fromkeys([*people(instances[0]), "No se sabe"], -1.0)) | change
    code, _, err = do_import(capsys, write(tmp_path, [row]), tmp_path / "run")
    assert code == 1
    assert "the model wrote nothing, and the row does not tell of which answers" in err
