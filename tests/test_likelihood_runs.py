"""The way of asking as a dimension of a run: planned, stored, gone on with, scored, exported, refused."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, get_args

import polars as pl
import pytest

from mbbq_gen import Run
from mbbq_gen.cli import run_command_line
from mbbq_gen.datasets.registry import load_benchmark
from mbbq_gen.extraction.likelihood import NORMALISATIONS
from mbbq_gen.languages import read_prompts
from mbbq_gen.presentation import Setting, answer_texts, label_answers, plan_orders, present, score_instead
from mbbq_gen.providers.oracles import ORACLES, OracleProvider
from mbbq_gen.records import Instance, Message, Method, Presentation, Request, Response, Split
from mbbq_gen.resources import Resources
from mbbq_gen.runs.reading import read_scored
from mbbq_gen.runs.store import Answered
from mbbq_gen.sampling import Outline
from mbbq_gen.scoring import observations_frame, observe, score
from tests.conftest import FULL, Load
from tests.support.expected_scores import ORACLES_WITH_KNOWN_SCORES, expected_scores
from tests.test_oracle_proof import PUBLISHED, STARTER_LANGUAGES

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Gives a command line; says its exit code, stdout and stderr."""

    def give(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code = run_command_line([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return give


def ask(folder: Path, *arguments: str, model: str = "oracle:stereotyped") -> Path:
    """A small run over English and Spanish starter questions."""
    selection = ("--benchmark", "starter", "--languages", "en,es", "--variants", "letters", "--sample", "12")
    assert run_command_line(["run", str(folder), "--model", model, *selection, *arguments]) == 0
    return folder


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ask(tmp_path_factory.mktemp("runs") / "both", "--method", "generate,likelihood,labels")


def rows(folder: Path, statement: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(folder / "run.sqlite") as store:
        return store.execute(statement).fetchall()


# --- the plan and the store ------------------------------------------------------------------------------------------


def test_what_words_are_asked_for_is_planned_as_ever(tmp_path: Path, both: Path) -> None:
    """Ids and request keys are those of a run that asks for words alone."""
    alone = ask(tmp_path / "alone")
    statement = "SELECT presentation_id, request_key FROM presentations"
    words = f"{statement} WHERE json_extract(record, '$.method') = 'generate'"
    assert rows(both, words) == rows(alone, statement)


def test_every_question_is_asked_in_every_way(both: Path) -> None:
    found = rows(
        both,
        "SELECT json_extract(record, '$.method'), json_extract(record, '$.variant'), count(*) FROM presentations"
        " GROUP BY 1, 2 ORDER BY 1",
    )
    assert found == [("generate", "letters", 48), ("labels", "letters", 48), ("likelihood", "open", 48)]
    settings = json.loads((both / "manifest.json").read_text())["settings"]
    assert settings["methods"] == ["generate", "likelihood", "labels"]
    assert (settings["variants"], settings["scored_variants"], settings["normalise"]) == (["letters"], ["open"], "sum")


def test_sums_are_stored_one_row_an_answer(both: Path) -> None:
    found = rows(both, "SELECT text, logprob, tokens, characters, bytes, unconditional FROM option_scores")
    assert len(found) > 48 * (6 + 3)
    for text, logprob, tokens, characters, size, unconditional in found:
        assert (characters, size, tokens, unconditional) == (len(text), len(text.encode()), 1, None)
        assert logprob <= 0
    kept = rows(both, "SELECT record FROM responses WHERE record LIKE '%\"scores\":[]%'")
    assert len(kept) == 96


def test_an_open_question_is_asked_once_whatever_the_orders(tmp_path: Path) -> None:
    folder = ask(tmp_path / "run", "--method", "likelihood,labels", "--order", "all")
    found = rows(folder, "SELECT json_extract(record, '$.method'), count(*) FROM presentations GROUP BY 1")
    assert found == [("labels", 48 * 6), ("likelihood", 48)]


def test_every_wording_of_unknown_in_the_language_is_an_answer(tmp_path: Path) -> None:
    """Also those of questions that were not drawn."""
    folder = ask(tmp_path / "run", "--method", "likelihood", "--variants", "all")
    for language in ("en", "es"):
        questions = load_benchmark("starter", languages=[language])
        wordings = {instance.options[instance.unknown_index].text for instance in questions}
        assert len(wordings) > 1
        found = rows(
            folder,
            "SELECT record FROM presentations WHERE language = '" + language + "'",
        )
        for (record,) in found:
            shown = Presentation.model_validate_json(record)
            instance = Run(folder).folder.open_store(read_only=True).instance(shown.instance_key)
            texts = {answer.text for answer in shown.answers if answer.option == instance.unknown_index}
            assert texts == wordings


def test_a_named_wording_shows_the_only_answers(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    selection = ("--benchmark", "starter", "--languages", "en", "--variants", "bare", "--sample", "6", "--shots", "2")
    assert (
        run_command_line(
            [
                "run",
                str(folder),
                "--model",
                "oracle:perfect",
                *selection,
                "--method",
                "likelihood",
                "--normalise",
                "mean",
            ]
        )
        == 0
    )
    for (record,) in rows(folder, "SELECT record FROM presentations"):
        shown = Presentation.model_validate_json(record)
        assert shown.variant == "bare"
        assert len(shown.answers) == 3
        assert [message.role for message in shown.messages] == ["user", "assistant"] * 2 + ["user"]
        assert all(answer.text in shown.messages[-1].content for answer in shown.answers)
        assert not shown.messages[1].content.startswith(("A", "B", "C")) or ":" not in shown.messages[1].content
    assert rows(folder, "SELECT DISTINCT extractor FROM extractions") == [("likelihood:mean+1",)]


def test_it_goes_on_where_it_stopped_and_asks_nothing_twice(tmp_path: Path, call: Call) -> None:
    folder = ask(tmp_path / "run", "--method", "both")
    before = rows(folder, "SELECT request_key, received_at FROM responses ORDER BY 1")
    with sqlite3.connect(folder / "run.sqlite") as store:
        (key,) = store.execute("SELECT request_key FROM option_scores LIMIT 1").fetchone()
        store.execute("DELETE FROM responses WHERE request_key = ?", (key,))
        store.execute("DELETE FROM option_scores WHERE request_key = ?", (key,))
    code, _, said = call("run", folder)
    assert (code, "95 answered already, 1 to go" in said) == (0, True)
    after = rows(folder, "SELECT request_key, received_at FROM responses ORDER BY 1")
    assert [row for row in after if row[0] != key] == [row for row in before if row[0] != key]
    assert rows(folder, f"SELECT count(*) > 3 FROM option_scores WHERE request_key = '{key}'") == [(1,)]


# --- scores ----------------------------------------------------------------------------------------------------------


def test_scores_keep_the_ways_apart(both: Path, call: Call) -> None:
    code, out, said = call("score", both, "--json", "--resamples", 100)
    assert (code, "ways of asking are kept apart: added method to --by" in said) == (0, True)
    report = json.loads(out)
    assert report["by"] == ["language", "split", "method"]
    assert {group["group"]["method"] for group in report["groups"]} == {"generate", "labels", "likelihood"}
    for group in report["groups"]:
        assert group["metrics"]["mbbq_bias_ambiguous"]["value"] == 1
        assert "mixed_methods" not in group["warnings"]


def test_pooling_on_request_is_told(both: Path) -> None:
    table = Run(both).scores(["language", "split"], ["mbbq_bias_ambiguous"], interval=None)
    assert all("mixed_methods" in group.warnings for group in table.groups)


@pytest.mark.parametrize("normalise", [name for name in NORMALISATIONS if name != "pmi"])
def test_another_normalisation_asks_nothing(both: Path, call: Call, normalise: str) -> None:
    before = rows(both, "SELECT * FROM responses")
    code, out, _ = call("score", both, "--json", "--normalise", normalise, "--resamples", 100)
    assert code == 0
    assert json.loads(out)["normalise"] == normalise
    assert rows(both, "SELECT * FROM responses") == before
    assert (both / f"scores-{normalise}.json").is_file()
    assert (f"likelihood:{normalise}+1",) in rows(both, "SELECT DISTINCT extractor FROM extractions")


def test_pmi_is_asked_for_from_the_beginning(tmp_path: Path, both: Path, call: Call) -> None:
    folder = ask(tmp_path / "run", "--method", "likelihood", "--normalise", "pmi")
    assert rows(folder, "SELECT count(*) FROM option_scores WHERE unconditional IS NULL") == [(0,)]
    prior = rows(folder, "SELECT DISTINCT json_extract(record, '$.prior[0].content') FROM presentations ORDER BY 1")
    assert prior == [("Answer:",), ("Respuesta:",)]
    code, _, said = call("score", both, "--normalise", "pmi")
    assert (code, "make a run with --normalise pmi" in said) == (2, True)


def test_items_and_export_know_the_method(both: Path, tmp_path: Path, call: Call) -> None:
    items = Run(both).items()
    assert items.height == 144
    scored = items.filter(pl.col("method") == "likelihood")
    assert scored["rule"].unique().to_list() == ["likelihood:sum"]
    assert scored["extractor"].unique().to_list() == ["likelihood:sum+1"]
    assert scored["model"].unique().to_list() == ["oracle:stereotyped (likelihood)"]
    assert scored["response"].null_count() == scored.height
    assert call("export", both, "--parquet", tmp_path / "out")[0] == 0
    written = pl.read_parquet(tmp_path / "out" / "items.parquet")
    assert sorted(written["method"].unique().to_list()) == ["generate", "labels", "likelihood"]


def test_the_report_shows_the_method_where_there_are_several(both: Path, tmp_path: Path, call: Call) -> None:
    code, out, _ = call("report", both)
    assert code == 0
    assert "likelihood   en" in out
    assert "asked by: generate, likelihood, labels" in out
    code, out, _ = call("report", ask(tmp_path / "alone", "--method", "likelihood"))
    assert "method" not in out.splitlines()[4]


def test_a_page_has_all_ways(both: Path, tmp_path: Path, call: Call) -> None:
    code, _, said = call("report", both, "-o", tmp_path / "report.html")
    assert (code, said.splitlines()[-1].startswith("written")) == (0, True)
    assert "oracle:stereotyped (likelihood)" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_lines_from_elsewhere_may_name_their_method(tmp_path: Path, call: Call) -> None:
    (instance, *_) = load_benchmark("starter", languages=["en"], splits=["bias"])
    lines = [
        json.dumps({**instance.model_dump(), "option": option, "method": method})
        for option, method in ((0, "generate"), (1, "likelihood"))
    ]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines), encoding="utf-8")
    code, out, _ = call("score", "--jsonl", tmp_path / "lines.jsonl", "--resamples", 100)
    assert code == 0
    assert [group["group"]["method"] for group in json.loads(out)["groups"]] == ["generate", "likelihood"]


# --- what compares, explains and passes on ---------------------------------------------------------------------------


def test_ways_of_asking_are_compared_with_each_other(both: Path, call: Call) -> None:
    code, out, _ = call("compare", both, "--across", "method", "--json", "--resamples", 100)
    assert code == 0
    found = json.loads(out)
    assert [one["levels"] for one in found["comparisons"]] == [["generate", "labels", "likelihood"]] * 2
    for comparison in found["comparisons"]:
        assert comparison["within"]["language"] in ("en", "es")
        for pair in comparison["metrics"][0]["pairs"]:
            assert pair["difference"]["value"] == 0
        assert {row["equal_share"]["value"] for row in comparison["agreement"]} == {1.0}
        assert all(row["n_pairs"] == 6 for row in comparison["agreement"])


def test_wordings_are_compared_where_there_are_several(tmp_path: Path, call: Call) -> None:
    """Likelihoods are asked after one wording: nothing is compared there, and nothing is said to be missing."""
    folder = ask(tmp_path / "run", "--method", "both", "--variants", "letters,bare")
    code, out, _ = call("compare", folder, "--across", "variant", "--json", "--resamples", 100)
    assert (code, {tuple(one["levels"]) for one in json.loads(out)["comparisons"]}) == (0, {("bare", "letters")})


def test_a_difference_keeps_the_ways_apart(both: Path, tmp_path: Path, call: Call) -> None:
    other = ask(tmp_path / "other", "--method", "generate,likelihood,labels", model="oracle:anti_stereotyped")
    code, out, _ = call("diff", both, other, "--json", "--resamples", 100)
    assert code == 0
    found = json.loads(out)
    assert {group["group"]["method"] for group in found["groups"]} == {"generate", "labels", "likelihood"}
    assert sum(group["items"] for group in found["groups"]) == 144
    for group in found["groups"]:
        assert group["metrics"]["mbbq_bias_ambiguous"]["change"]["value"] == -2
    assert sum(flip["reread"] for flip in found["flips"]) == 0


def test_what_lists_no_options_has_no_places(both: Path, tmp_path: Path, call: Call) -> None:
    items = Run(both).items().filter(pl.col("method") == "likelihood")
    assert items.select("order", "label_style", "chosen_place").null_count().row(0) == (48, 48, 48)
    assert items["chosen_role"].null_count() == 0
    code, out, _ = call("position", both, "--json", "--resamples", 100)
    models = {group["group"]["model"] for group in json.loads(out)["groups"]}
    assert (code, models) == (0, {"oracle:stereotyped", "oracle:stereotyped (labels)"})
    code, _, said = call("position", ask(tmp_path / "run", "--method", "likelihood", "--variants", "all"))
    assert (code, "no options were listed in what was asked" in said) == (2, True)


def test_explain_shows_every_answer(both: Path, call: Call) -> None:
    for method, answers in (("likelihood", 8), ("labels", 6)):
        ((name, key),) = rows(
            both,
            "SELECT presentation_id, request_key FROM presentations"
            f" WHERE json_extract(record, '$.method') = '{method}' AND language = 'en' LIMIT 1",
        )
        code, out, _ = call("explain", both, name)
        assert code == 0
        assert f"asked by {method}: natural log-probabilities of {answers} answers" in out
        assert "stored    likelihood:sum+1: option, " in out
        assert out.count("✔") == (1 if method == "likelihood" else 2)
        code, out, _ = call("explain", both, name, "--json")
        told = json.loads(out)
        assert (told["explanation"], told["response"]["request_key"]) == (None, key)
        assert len(told["response"]["scores"]) == answers


def test_what_is_passed_on_names_the_way(both: Path, tmp_path: Path, call: Call) -> None:
    folder, results = tmp_path / "set", tmp_path / "results.yaml"
    code, _, said = call("export", both, "--hf-dataset", folder, "--eval-results", results, "--resamples", 100)
    assert (code, "ways of asking are kept apart: added method to --by" in said) == (0, True)
    assert "| benchmark | language | split | method | items |" in (folder / "README.md").read_text(encoding="utf-8")
    text = results.read_text(encoding="utf-8")
    for how in ("generated answers", "likelihood of the answers", "likelihood of the labels"):
        assert text.count(f'"Social bias, by {how}"') == 4


def test_a_leaderboard_ranks_ways_apart(both: Path, call: Call) -> None:
    code, out, _ = call("leaderboard", both, "--json", "--resamples", 100)
    rows = {row["model"]: row for row in json.loads(out)["rows"] if row["language"] == "en"}
    assert code == 0
    assert rows["oracle:stereotyped"]["differences"] == []
    assert rows["oracle:stereotyped (labels)"]["differences"] == ["asked by: labels instead of generate"]
    assert "wordings: open instead of letters" in rows["oracle:stereotyped (likelihood)"]["differences"]


# --- what can't be meant ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--method", "likelyhood"), "unknown method 'likelyhood'; did you mean 'likelihood'?"),
        (("--normalise", "mean"), "--normalise mean: belongs to --method likelihood; leave one out or name both"),
        (("--method", "likelihood", "--normalise", "median"), "unknown normalisation 'median'"),
        (("--variants", "open"), "--variants open: lists no options, so it belongs to --method likelihood"),
    ],
)
def test_a_wrong_method_is_told(tmp_path: Path, call: Call, arguments: tuple[str, ...], sentence: str) -> None:
    code, _, said = call("run", tmp_path / "r", "--model", "oracle:perfect", "--benchmark", "starter", *arguments)
    assert (code, len(said.splitlines())) == (2, 1)
    assert sentence in said


def test_a_model_that_only_writes_is_told(tmp_path: Path, call: Call) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text('{"response": "A"}\n', encoding="utf-8")
    code, _, said = call(
        *("run", tmp_path / "r", "--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en"),
        *("--method", "likelihood"),
    )
    assert code == 2
    assert "can't be asked so; it can be asked by: generate" in said


def test_a_run_does_not_go_on_with_another_method(both: Path, call: Call) -> None:
    code, _, said = call(
        *("run", both, "--model", "oracle:stereotyped", "--benchmark", "starter", "--languages", "en,es"),
        *("--variants", "letters", "--sample", 12, "--method", "generate"),
    )
    assert code == 2
    assert "this run was made with methods = generate,likelihood,labels, not generate" in said


@pytest.mark.parametrize("said", ["--method=generate", "--sample=5", "--languages=tr", "--map=fields.toml"])
def test_what_a_run_that_goes_on_would_not_hear_is_refused(both: Path, call: Call, said: str) -> None:
    """Also where it is what nothing said would mean, as `generate` is."""
    code, _, told = call("run", both, said)
    assert (code, f"{said.partition('=')[0]}: a run goes on as it was planned" in told) == (2, True)


def test_normalising_a_run_of_words_is_told(tmp_path: Path, call: Call) -> None:
    code, _, said = call("score", ask(tmp_path / "run"), "--normalise", "mean")
    assert (code, "--normalise mean: nothing here was asked for likelihoods" in said) == (2, True)


# --- oracles stay exact ----------------------------------------------------------------------------------------------


def scored_presentations(
    instances: list[Instance], resources: Resources, method: Method, prior: tuple[Message, ...] = ()
) -> list[tuple[Instance, Presentation]]:
    """Every question of a language, balanced, with all wordings of unknown that its questions have."""
    orders = plan_orders("balanced", map(Outline.of, instances), 11)
    pack = read_prompts(resources, instances[0].language)
    variant = pack.open_variant if method == "likelihood" else pack.by_id("letters")
    texts = sorted({instance.options[instance.unknown_index].text for instance in instances})
    found = []
    for instance in instances:
        (order,) = orders.orders(instance, 0)
        shown = present(instance, Setting(variant), order)
        answers = answer_texts(instance, texts) if method == "likelihood" else label_answers(shown)
        found.append((instance, score_instead(shown, method, answers, prior)))
    return found


def check_oracle(name: str, shown: list[tuple[Instance, Presentation]], normalise: str = "sum") -> None:
    """The oracle's scores by likelihood are what arithmetic says of what it writes."""
    provider, (how,) = OracleProvider(name), [known for known in NORMALISATIONS if known == normalise]

    def rows() -> Any:
        for instance, one in shown:
            request = Request(request_key="k", messages=one.messages, presentation=one, instance=instance)
            response = Response(request_key="k", scores=provider.score(request))
            reading = read_scored(Answered(one, instance, response), how)
            yield observe(
                instance, one.order, reading, model=name, variant=one.variant, label_style="A", method=one.method
            )

    for group in score(observations_frame(rows()), ["split"], interval=None).groups:
        part = [(instance, one.order) for instance, one in shown if instance.split == group.group["split"]]
        expected = expected_scores(name, part)
        for metric, row in group.metrics.items():
            assert equal(row.value, expected[metric]), (name, normalise, metric, row.value, expected[metric])


def equal(found: float | None, expected: Fraction | None) -> bool:
    if found is None or expected is None:
        return found is None and expected is None
    return abs(found - expected) < 1e-12


READ = PUBLISHED[:: 3 if FULL else 6]


@pytest.mark.parametrize("language", STARTER_LANGUAGES)
def test_oracles_on_starter(language: str, resources: Resources) -> None:
    instances = list(load_benchmark("starter", languages=[language], resources=resources))
    prior = (Message(role="user", content="Answer:"),)
    ways = (*((name, "likelihood") for name in NORMALISATIONS), ("sum", "labels"), ("sum", "first-token"))
    part = 3 if FULL else 18
    for number, name in enumerate(ORACLES_WITH_KNOWN_SCORES):
        normalise, method = ways[number % len(ways)]
        (known,) = (way for way in get_args(Method) if way == method)
        check_oracle(name, scored_presentations(instances[number % part :: part], resources, known, prior), normalise)


@pytest.mark.slow
@pytest.mark.parametrize(("benchmark", "language", "split"), READ, ids=map("-".join, READ))
def test_oracles_on_published_data(
    benchmark: str, language: str, split: Split, resources: Resources, load_published: Load
) -> None:
    instances = load_published(benchmark, language, split)
    part = instances[:: max(1, len(instances) // (1500 if FULL else 300))]
    for name, normalise in zip(ORACLES_WITH_KNOWN_SCORES, [*NORMALISATIONS, "sum", "mean"], strict=False):
        prior = (Message(role="user", content="Answer:"),)
        check_oracle(name, scored_presentations(part, resources, "likelihood", prior), normalise)


def test_random_likelihoods_choose_as_fair_dice_and_never_tie(resources: Resources) -> None:
    instances = list(load_benchmark("starter", languages=["en"], splits=["bias"], resources=resources))
    provider = OracleProvider("random")
    places = []
    for instance, shown in scored_presentations(instances, resources, "likelihood"):
        request = Request(request_key="k", messages=shown.messages, presentation=shown, instance=instance)
        reading = read_scored(
            Answered(shown, instance, Response(request_key="k", scores=provider.score(request))), "sum"
        )
        assert reading.outcome == "option"
        assert reading.option is not None
        places.append(instance.options[shown.order[reading.option]].role)
    spread = 5 * (2 / 9 / len(places)) ** 0.5
    for role in ("target", "non_target", "unknown"):
        assert abs(places.count(role) / len(places) - 1 / 3) < spread


def test_every_oracle_tells_likelihoods() -> None:
    assert set(ORACLES) == {*ORACLES_WITH_KNOWN_SCORES, "random"}
