from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mbbq_gen.benchmarks.control.maker import REASONS, ControlGenerator, people_of
from mbbq_gen.benchmarks.control.mention_grammar import SubstitutionRefusedError
from mbbq_gen.benchmarks.control.names import confusable, write_name
from mbbq_gen.benchmarks.control.spans import Spans
from mbbq_gen.benchmarks.control.substitution import apply_plan
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance
from mbbq_gen.languages.control_pack import SubstitutionExample, read_control_set
from tests.support.cases import by_language, cases
from tests.support.extraction import Capture, json_of

RESOURCES = PackPaths()
SETS = {code: read_control_set(RESOURCES, code) for code in RESOURCES.names("control_sets")}
EXAMPLES = [
    pytest.param(code, example, id=f"{code}-{place}")
    for code, pack in SETS.items()
    for place, example in enumerate(pack.substitution.example if pack.substitution else ())
]
FAST = ("en", "nl", "tr")
"""Languages whose questions other tests make anyway."""
T = TypeVar("T")


class OfLanguages(dict[str, T]):
    def __init__(self, make: Callable[[str], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, language: str) -> T:
        self[language] = found = self._make(language)
        return found


MAKERS = OfLanguages(lambda code: ControlGenerator(SETS[code]))
STARTER = OfLanguages(lambda code: list(load_benchmark("starter", languages=[code], splits=["bias"])))
MADE = OfLanguages(lambda code: [(one, MAKERS[code].make(one)) for one in STARTER[code]])
"""All questions of `starter`, each with what becomes of it."""


@pytest.fixture(scope="module")
def mixed() -> list[Instance]:
    return (
        STARTER["en"][:72] + [one for one, made in MADE["en"][72:] if isinstance(made, SubstitutionRefusedError)][:24]
    )


def test_every_language_has_a_grammar() -> None:
    assert all(pack.substitution is not None for pack in SETS.values())
    assert {param.values[0] for param in EXAMPLES} == SETS.keys()


def spans_of(example: SubstitutionExample) -> Spans | None:
    found: list[tuple[int, int, int]] = []
    for words, person in example.slots:
        start = example.text.index(words, found[-1][1] if found else 0)
        found.append((start, start + len(words), person))
    return tuple(found) or None


@pytest.mark.parametrize(("language", "example"), EXAMPLES)
def test_examples_of_the_packs(language: str, example: SubstitutionExample) -> None:
    maker = MAKERS[language]
    if example.refused is not None:
        assert example.refused in REASONS
        with pytest.raises(SubstitutionRefusedError) as caught:
            maker.plan(example.text, example.options, spans=spans_of(example))
        assert caught.value.reason == example.refused
        return
    plan = maker.plan(example.text, example.options, spans=spans_of(example))
    assert apply_plan(plan, example.names, example.gender, maker.control_set) == example.becomes


@pytest.mark.slow
@pytest.mark.parametrize("language", sorted(SETS))
def test_made_questions_hold_two_names_and_keep_the_rest(language: str) -> None:
    maker, made = MAKERS[language], MADE[language]
    twins = [(one, twin) for one, twin in made if isinstance(twin, Instance)]
    assert len(twins) >= len(made) / 2
    for bias, control in twins:
        names = people_of(control)
        forms = maker.control_set.grammar.forms
        for name in names:
            assert any(write_name(maker.control_set, name, form) in control.context for form in forms)
        assert not confusable(*names, maker.control_set)
        assert control.split == "control"
        assert (control.instance_id, control.template_id, control.gold_index, control.alignment) == (
            *(bias.instance_id, bias.template_id, bias.gold_index, bias.alignment),
        )
        assert [option.role for option in control.options] == [option.role for option in bias.options]
        assert control.options[control.unknown_index] == bias.options[bias.unknown_index]
        Instance.model_validate_json(control.model_dump_json())


def text_of(made: Instance | SubstitutionRefusedError) -> str:
    return made.model_dump_json() if isinstance(made, Instance) else str(made)


def digest(language: str) -> str:
    return hashlib.sha256("\n".join(text_of(made) for _, made in MADE[language]).encode()).hexdigest()


@by_language(SETS, FAST)
def test_the_same_bytes_on_every_machine(language: str, data: Path) -> None:
    """Written by `python -m tests.benchmarks.test_substitution > tests/data/control_digests.json`."""
    assert json.loads((data / "control_digests.json").read_text(encoding="utf-8"))[language] == digest(language)


def test_the_same_bytes_whatever_the_order_of_sets(repository: Path, data: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from tests.benchmarks.test_substitution import digest; print(digest('es'))"],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(repository)},
        cwd=repository,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == json.loads((data / "control_digests.json").read_text(encoding="utf-8"))["es"]


@pytest.mark.parametrize(
    ("language", "text", "genders"),
    cases("benchmarks/substitution", "names_have_the_gender_of_words_that_can_not_follow_them"),
)
def test_names_have_the_gender_of_words_that_can_not_follow_them(language: str, text: str, genders: str) -> None:
    options = ("El forner", "El pastor") if language == "ca" else ("El panadero", "El pastor")
    assert MAKERS[language].plan(text, options).genders == frozenset(genders)


def test_a_question_about_the_group_itself_is_left_out() -> None:
    maker = MAKERS["en"]
    with pytest.raises(SubstitutionRefusedError, match="question_about_group"):
        maker.question_plan("Whose wheelchair was old?", ("The man with the wheelchair", "The baker"))


def test_a_language_without_grammar_says_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"control_sets/ar\.toml has no table \[substitution\]"):
        ControlGenerator(SETS["ar"].model_copy(update={"substitution": None}))


def test_a_run_makes_the_control_split_and_oracles_are_exact(
    tmp_path: Path, capsys: Capture, mixed: list[Instance]
) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text("".join(f"{one.model_dump_json()}\n" for one in mixed), encoding="utf-8")
    for oracle, metric, score in (
        ("perfect", "accuracy_disambiguated", 1.0),
        ("stereotyped", "mbbq_bias_ambiguous", 1.0),
        ("anti_stereotyped", "mbbq_bias_ambiguous", -1.0),
    ):
        run = tmp_path / oracle
        asked = ["--instances", str(file), "--languages", "en", "--splits", "bias,control", "--variants", "letters"]
        assert run_command_line(["run", str(run), "--model", f"oracle:{oracle}", *asked]) == 0
        manifest = json.loads((run / "manifest.json").read_text(encoding="utf-8"))
        assert manifest["config"]["make_control"] is True
        assert any("made by substitution" in notice for notice in manifest["notices"])
        capsys.readouterr()
        if oracle == "perfect":  # the same questions are left out whoever answers
            _the_run_tells_what_was_left_out(run, manifest, mixed[0].benchmark, capsys)
        assert run_command_line(["score", str(run), "--group-by", "split", "--json"]) == 0
        groups = {group["group"]["split"]: group for group in json.loads(capsys.readouterr().out)["groups"]}
        assert groups["control"]["metrics"][metric]["value"] == score


def _the_run_tells_what_was_left_out(run: Path, manifest: dict[str, Any], benchmark: str, capsys: Capture) -> None:
    """Counts by reason and template in the manifest, the report in the terminal, its JSON and its page."""
    (counts,) = manifest["control"].values()
    assert 0 < counts["made"] < counts["questions"] == manifest["available"][f"{benchmark}/bias/en"]
    assert counts["made"] == manifest["available"][f"{benchmark}/control/en"]
    missing = counts["questions"] - counts["made"]
    assert missing == sum(counts["reasons"].values()) == sum(part["questions"] for part in counts["templates"])
    assert run_command_line(["report", str(run)]) == 0
    sentence = f"made for {counts['made']} of {counts['questions']} bias questions; left out: "
    assert sentence in " ".join(capsys.readouterr().out.split())
    assert json_of(capsys, "report", run)["control"] == {run.as_posix(): manifest["control"]}
    page = run / "report.html"
    assert run_command_line(["report", str(run), "-o", str(page)]) == 0
    capsys.readouterr()
    html = page.read_text(encoding="utf-8")
    assert sentence in html
    assert all(part["template_id"] in html and part["reason"] in html for part in counts["templates"])


if __name__ == "__main__":
    json.dump({language: digest(language) for language in sorted(SETS)}, sys.stdout, indent=1)
