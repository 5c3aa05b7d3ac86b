from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.analysis.correction import labelled_groups
from mbbq_gen.annotation.annotations import probabilities
from mbbq_gen.annotation.review import DRAWS_NAME, DrawnStratum, SamplingDesign, SamplingDraw
from mbbq_gen.scoring.cells import CELLS, Cell, Counts, cell_expression, count_matrix
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import Tally, weighted_by_design
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings, no_score
from mbbq_gen.statistics.panel import Panel, make_panel
from mbbq_gen.statistics.ppi import CLASS_LABELS, AnnotatedCells, PPIGroup, correct, join_classes, usual_error_rate
from tests.support.cases import cases
from tests.support.extraction import Capture, call, copy_run, json_of, make_run, stderr_of, succeed
from tests.support.simulation import Design as SimulatedDesign
from tests.support.simulation import SimulatedLanguage, SimulatedModel, simulate

CHOICES = ("target", "non_target", "unknown", "unparsed")
CONTEXTS = ("ambiguous", "biased", "counter_biased")
RIGHT = {"ambiguous": "unknown", "biased": "target", "counter_biased": "non_target"}
BIASES = [name for name, metric in METRICS.items() if not name.endswith("_bound")]


def code(context: str, choice: str) -> int:
    verdict = "unparsed" if choice == "unparsed" else "right" if choice == RIGHT[context] else "wrong"
    condition = "ambiguous" if context == "ambiguous" else "disambiguated"
    return CELLS.index(Cell(condition, verdict, context, "negative", choice))  # type: ignore[arg-type]


CODES = np.array([[code(context, choice) for choice in CHOICES] for context in CONTEXTS])


class Population:
    def __init__(self, seed: int, error: float, templates: int = 12, each: int = 12) -> None:
        self.generator = np.random.default_rng(seed)
        size = templates * each
        self.templates = np.repeat(np.arange(templates), each)
        self.contexts = np.tile(np.arange(each) % 3, templates)
        self.said = self.generator.choice(4, size, p=[0.35, 0.25, 0.35, 0.05])
        wrong = self.generator.random(size) < error
        self.read = np.where(wrong, (self.said + self.generator.integers(1, 4, size)) % 4, self.said)

    def group(self, chosen: Any) -> PPIGroup:
        number = int(self.templates.max()) + 1
        cells, sizes = np.zeros((number, len(CELLS))), np.zeros((number, 1))
        np.add.at(cells, (self.templates, CODES[self.contexts, self.read]), 1.0)
        np.add.at(sizes[:, 0], self.templates, 1.0)
        weight = np.full(len(chosen), len(self.said) / len(chosen))
        return PPIGroup(
            cells=cells,
            settled=np.zeros_like(cells),
            classes=(("en", "any"),),
            class_sizes=sizes,
            labelled=AnnotatedCells(
                read=CODES[self.contexts[chosen], self.read[chosen]],
                right=CODES[self.contexts[chosen], self.said[chosen]],
                template=self.templates[chosen],
                kind=np.zeros(len(chosen), dtype=np.int64),
                weight=weight,
            ),
            error_rate=usual_error_rate(self.read[chosen] != self.said[chosen], weight),
        )

    def sample(self, number: int) -> PPIGroup:
        return self.group(self.generator.choice(len(self.said), number, replace=False))

    def truth(self, metric: str) -> float:
        cells = np.bincount(CODES[self.contexts, self.said], minlength=len(CELLS)).astype(float)
        return float(METRICS[metric].value(Counts(cells @ count_matrix(), "discard")))


@pytest.mark.parametrize("name", BIASES)
def test_where_everything_is_labelled_the_corrected_score_is_the_true_one(name: str) -> None:
    population = Population(1, 0.3)
    found = correct(METRICS[name], population.group(np.arange(len(population.said))), "discard")
    assert found.value == pytest.approx(population.truth(name))
    assert found.influence_values.sum() == pytest.approx(0, abs=1e-9)


def test_labels_weigh_what_their_answers_weigh_by_design() -> None:
    """One language asked half as often: with all answers labelled, the corrected score is the true one."""
    frame = simulate(
        SimulatedModel({"en": SimulatedLanguage(lean=0.8), "tr": SimulatedLanguage(lean=-0.4)}),
        SimulatedDesign(templates=12, variants=2, fillings=4, splits=("bias",)),
        seed=5,
    )
    fewer = frame.filter((pl.col("language") == "en") | (pl.col("variant") == "wording 1"))
    bias = METRICS["mbbq_bias_ambiguous"]
    misread = pl.when(pl.int_range(pl.len()) % 5 == 0).then(pl.lit("target")).otherwise(pl.col("chosen_role"))
    read = fewer.with_columns(chosen_role=misread.cast(fewer.schema["chosen_role"]))
    told = read.with_columns(
        prompt_id=pl.int_range(pl.len()).cast(pl.String),
        weight=pl.lit(1.0),
        right_cell=fewer.select(cell_expression()).to_series(),
    )
    (truth,) = make_panel(weighted_by_design(fewer), [], InferenceSettings(n_resamples=1)).estimates(bias)
    (naive,) = make_panel(fewer, [], InferenceSettings(n_resamples=1)).estimates(bias)
    (group,) = labelled_groups(weighted_by_design(read), told, [], InferenceSettings(n_resamples=1))
    found = group.score(bias)
    assert found.value == pytest.approx(truth.value)
    assert abs(naive.value - truth.value) > 0.05
    (plain,) = make_panel(weighted_by_design(read), [], InferenceSettings(n_resamples=1)).estimates(bias)
    assert found.uncorrected == pytest.approx(plain.value)


@pytest.mark.parametrize("name", BIASES)
def test_a_reader_without_errors_is_not_corrected(name: str) -> None:
    """And the influences are those of the score as it was read."""
    population = Population(2, 0.0)
    group = population.sample(40)
    found = correct(METRICS[name], group, "discard")
    assert found.value == pytest.approx(found.plain)
    assert found.ppi_lambda == pytest.approx(1)
    names = tuple(f"t{place}" for place in range(12))
    tally = Tally({}, 0, {}, {}, 0, names, group.cells)
    (plain,) = Panel(({},), (tally,), names, group.cells[None], InferenceSettings(n_resamples=2)).estimates(
        METRICS[name]
    )
    assert found.influence_values == pytest.approx(plain.influence_values, abs=1e-9)
    assert plain.standard_error <= found.standard_error  # an error so rare that no label shows it is allowed for


def test_over_all_samples_the_correction_is_right_on_average() -> None:
    """All 4,495 samples of 3 of 31 answers, each label standing for as many answers."""
    population = Population(3, 0.4, templates=1, each=31)
    right = CODES[population.contexts, population.said]
    totals = np.zeros((2, len(CELLS)))
    subsets = list(itertools.combinations(range(31), 3))
    for chosen in subsets:
        prepared = population.group(np.array(chosen))
        totals += [prepared.totals(1.0), prepared.totals(0.3)]
    truth = np.bincount(right, minlength=len(CELLS))
    for total in totals / len(subsets):
        assert total == pytest.approx(truth)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.sampled_from("mn"), st.integers(0, 30)), max_size=12
    )
)
def test_classes_are_joined_until_each_has_labels(rows: list[tuple[str, str, str, int]]) -> None:
    counts = {row[:3]: row[3] for row in rows}
    names = join_classes(list(counts), list(counts.values()))
    totals: dict[tuple[str, ...], int] = {}
    for name, count in zip(names, counts.values(), strict=True):
        totals[name] = totals.get(name, 0) + count
    if sum(counts.values()) >= CLASS_LABELS:
        assert all(total >= CLASS_LABELS for total in totals.values())
    assert all(
        name == old or name not in counts or counts[old] < CLASS_LABELS for name, old in zip(names, counts, strict=True)
    )


def drawn(seed: int, *strata: tuple[int, str]) -> SamplingDraw:
    return SamplingDraw(
        design=SamplingDesign(seed=seed),
        extractors={"en": "1+x"},
        strata=tuple(
            DrawnStratum(key=(str(place),), size=size, drawn=tuple(ids)) for place, (size, ids) in enumerate(strata)
        ),
    )


@pytest.mark.parametrize(
    ("draws", "judged", "expected"),
    [
        pytest.param([drawn(0, (100, "ab"), (4, "cd"))], "abcd", {"a": 0.02, "c": 0.5}, id="by stratum"),
        pytest.param([drawn(0, (10, "ab"))], "abx", {"a": 0.2, "b": 0.2}, id="not in the sample"),
        pytest.param([drawn(0, (10, "a")), drawn(0, (5, "ab"))], "ab", {"a": 0.4, "b": 0.4}, id="one seed: nested"),
        pytest.param([drawn(0, (10, "a")), drawn(1, (10, "a"))], "a", {"a": 0.19}, id="two seeds: independent"),
        pytest.param([drawn(0, (8, "abcd"), (4, "wxyz"))], "abwx", {"a": 1 / 3, "w": 1 / 3}, id="stopped early"),
        pytest.param([], "ab", {}, id="no sample"),
    ],
)
def test_probabilities(draws: list[SamplingDraw], judged: str, expected: dict[str, float]) -> None:
    found = probabilities(draws, judged)
    assert {name: found[name] for name in expected} == pytest.approx(expected, abs=1e-9)
    assert set(found) == {name for name in judged if any(name in s.drawn for draw in draws for s in draw.strata)}


def score(value: float, low: float, high: float) -> EstimateResult:
    return no_score("").model_copy(update={"value": value, "ci_low": low, "ci_high": high, "reason": None})


Fill = Callable[[dict[str, str]], tuple[str, str]]
"""From a row of a sheet to verdict and right option."""


def agree(row: dict[str, str]) -> tuple[str, str]:
    return "agree", ""


def judge(capsys: Capture, run: Path, sample: int, fill: Fill = agree, *options: object) -> None:
    sheet = run.parent / "sheet.csv"
    assert call(capsys, "annotate", run, "--sample-size", sample, "--csv", sheet, *options)[0] == 0
    rows = list(csv.DictReader(io.StringIO(sheet.read_text(encoding="utf-8-sig"))))
    for row in rows:
        row["verdict"], row["right"] = fill(row)
    with sheet.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    succeed(capsys, "annotate", run, "--import", sheet)


def scores(capsys: Capture, *arguments: object) -> dict[str, Any]:
    return dict(json_of(capsys, *arguments))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("correction") / "run", sample=144)


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return copy_run(original, tmp_path)


@pytest.mark.parametrize("command", [["score"], ["compare", "--across", "language"], ["report"]])
def test_without_labels_there_is_one_line_and_exit_code_2(run: Path, capsys: Capture, command: list[str]) -> None:
    for judged in (0, 7):
        if judged:
            judge(capsys, run, judged)
        err = stderr_of(capsys, command[0], run, *command[1:], "--correct-with", "annotations")
        (line,) = [line for line in err.splitlines() if line.startswith("error")]
        assert all(part in line for part in (f"{judged} ", "20 ", "annotate"))


@pytest.mark.parametrize(("options", "said"), cases("analysis/correction", "what_can_not_be_corrected_is_refused"))
def test_what_can_not_be_corrected_is_refused(run: Path, capsys: Capture, options: list[str], said: str) -> None:
    assert said in stderr_of(capsys, "score", run, *options)


def test_a_poor_reader_is_corrected_to_what_a_full_audit_says(run: Path, capsys: Capture) -> None:
    """All answers are judged, and the engine's readings called right: another reader's scores become the engine's."""
    judge(capsys, run, 100_000)
    names = "parse_rate,accuracy_ambiguous,accuracy_disambiguated,mbbq_bias_ambiguous,diff_bias_disambiguated"
    engine = scores(capsys, "score", run, "--metric", names)
    poor = scores(
        capsys, "score", run, "--metric", names, "--extractor", "first-label", "--correct-with", "annotations"
    )
    assert poor["correction"]["source"] == "annotations"
    differing = 0
    for before, group, corrected in zip(engine["groups"], poor["groups"], poor["correction"]["groups"], strict=True):
        assert before["group"] == group["group"] == corrected["group"]
        for name in names.split(","):
            assert corrected["metrics"][name]["uncorrected"] == pytest.approx(group["metrics"][name]["value"])
            assert corrected["metrics"][name]["value"] == pytest.approx(before["metrics"][name]["value"], abs=1e-9)
            differing += abs(corrected["metrics"][name]["correction"]) > 0.01
    assert differing > 4
    wrong = [one["rate"]["value"] for one in poor["correction"]["errors"]]
    assert min(wrong) > 0.05
    assert {matrix["language"] for matrix in poor["correction"]["matrices"]} == {None, "en", "tr"}
    for matrix in poor["correction"]["matrices"]:
        for role in {cell["read"] for cell in matrix["cells"]}:
            assert sum(cell["share"] for cell in matrix["cells"] if cell["read"] == role) == pytest.approx(1)


def test_corrected_differences_are_adjusted_over_all_metrics(run: Path, capsys: Capture) -> None:
    judge(capsys, run, 100_000)
    command = ["compare", run, "--across", "language", "--correct-with", "annotations", "--n-resamples", 200]
    for extent, factor in (("pairs", 1), ("all", 2)):
        (compared,) = scores(capsys, *command, "--p-adjust-over", extent)["comparisons"]
        found = [metric["pairs"][0]["corrected"] for metric in compared["metrics"]]
        lowest = min(found, key=lambda one: one["p_value"])
        assert lowest["p_adjusted"] == pytest.approx(min(1.0, factor * lowest["p_value"]))


def test_a_language_that_nobody_judged_is_not_corrected(run: Path, capsys: Capture) -> None:
    judge(capsys, run, 80, agree, "--languages", "en")
    found = scores(
        capsys, "score", run, "--group-by", "language", "--correct-with", "annotations", "--metric", "parse_rate"
    )
    by_language = {group["group"]["language"]: group for group in found["correction"]["groups"]}
    assert by_language["en"]["metrics"]["parse_rate"]["value"] is not None
    assert by_language["tr"]["metrics"]["parse_rate"]["value"] is None
    assert by_language["tr"]["metrics"]["parse_rate"]["reason_code"] == "undefined"


def test_a_spoilt_file_of_draws_is_named(run: Path, capsys: Capture) -> None:
    judge(capsys, run, 40)
    with (run / DRAWS_NAME).open("a", encoding="utf-8") as stream:
        stream.write("{}\n")
    assert f"{DRAWS_NAME}:2: " in stderr_of(capsys, "score", run, "--correct-with", "annotations")


def test_a_difference_is_paired_by_template() -> None:
    group = Population(6, 0.1).sample(60)
    found = correct(METRICS["mbbq_bias_ambiguous"], group, "discard")
    nothing = found.minus(found)
    assert nothing.value == 0
    assert (nothing.influence_values == 0).all()
