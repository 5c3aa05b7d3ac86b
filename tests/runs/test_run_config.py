from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.config import FOR_ONE_COMMAND, PROVIDER_SETTINGS, RunConfig, setting_info, shapes
from mbbq_gen.core.errors import COMMAND, FILE, ConfigError, Spelling, UsageError
from mbbq_gen.runs.study import study_schema
from tests.support.api import replying
from tests.support.cases import cases
from tests.support.prices import write_prices

DATA = Path(__file__).parents[1] / "data"
BASE = {"model": "oracle:perfect", "benchmark": "starter", "languages": "en", "variants": "bare", "splits": "bias"}
SMALL: dict[str, Any] = {**BASE, "sample": 1}
MBBQ = {**SMALL, "benchmark": "mbbq", "data_dir": str(DATA / "datasets" / "mbbq")}
OWN = {"instances": str(DATA / "own" / "questions.csv"), "instances_field_map": str(DATA / "own" / "map.toml")}
OWN_QUESTIONS = {"model": "oracle:perfect", "variants": "bare", **OWN}
FOUR_AXES = "politeness=plain+please,format=free+line,hint=none+say_so,debias=none+no_stereotypes"
LOCAL = ("dtype", "device")
"""Settings of a model on this machine: they need one."""
ROUNDS = {**BASE, "answers_per_template": 1}
BESIDE: dict[str, dict[str, Any]] = {
    "data_dir": MBBQ,
    "instances": OWN_QUESTIONS,
    "instances_field_map": OWN_QUESTIONS,
    "axes": {name: value for name, value in SMALL.items() if name != "variants"},
    "axes_design": {name: value for name, value in SMALL.items() if name != "variants"} | {"axes": FOUR_AXES},
    "normalization": {**SMALL, "method": "generate,loglikelihood"},
    "make_control": {**MBBQ, "splits": "bias,control"},
    "instruction_language": {**SMALL, "languages": "tr"},
    "stop_at_ci_width": BASE,
    "stop_when_decided": BASE,
    "answers_per_template": BASE,
    "equivalence_margin": {**BASE, "stop_when_decided": "bias != 0"},
    "metric": {**BASE, "stop_at_ci_width": 0.5},
    "group_by": {**BASE, "answers_per_template": 2},
    "workers": {**SMALL, "ray": "local"},
    "gpus_per_worker": {**SMALL, "ray": "local"},
}
"""The other settings that a setting is given with."""
VALUES: dict[str, Any] = {
    **OWN,
    "data_dir": MBBQ["data_dir"],
    "model_args": {"speech": "sentence"},
    "splits": ("bias", "control"),
}
"""Values in place of the setting's example."""
ANSWER = {"body": {"choices": [{"message": {"content": "A"}, "finish_reason": "stop"}], "model": "fake"}}
DOORS = ("command", "study", "config", "keywords")


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with replying([ANSWER]) as running:
        yield f"{running.root}/v1"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, server: str) -> Path:
    """A folder with the files that settings name, and the address of a server in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "fake-key")
    monkeypatch.setenv("MY_KEY", "fake-key")
    write_prices(tmp_path, price=1.0, output=2.0)
    (tmp_path / "key.txt").write_text("fake-key\n", encoding="utf-8")
    (tmp_path / "key.txt").chmod(0o600)
    (tmp_path / "server").write_text(server, encoding="utf-8")
    return tmp_path


def given_for(name: str, place: Path) -> dict[str, Any]:
    value: Any = VALUES.get(name, RunConfig.model_fields[name].examples[0])  # type: ignore[index]
    given = dict(BESIDE.get(name, SMALL))
    if name in PROVIDER_SETTINGS and name not in (*LOCAL, "threads"):
        given |= {"model": "openai:fake", "base_url": (place / "server").read_text(encoding="utf-8")}
        value = given["base_url"] if name == "base_url" else value
    if name in (*LOCAL, "threads"):
        given |= {"model": "transformers:smollm2", "max_tokens": 2}
    if name == "reasoning_effort":
        server = (place / "server").read_text(encoding="utf-8")
        given |= {"model": "openai:gpt-5", "base_url": server, "model_args": {"reasoning_by": "effort"}}
    if name == "max_cost":
        server = (place / "server").read_text(encoding="utf-8")
        given |= {"model": "openai:fake", "base_url": server, "prices": str(place / "prices.toml")}
    if name in {"prices", "cache_dir"}:  # relative to the file in a study
        value = str(place / value)
    return {**given, name: value}


def typed(given: dict[str, Any]) -> list[str]:
    words: list[str] = []
    for name, value in given.items():
        option = COMMAND.name(name)
        if isinstance(value, dict):
            words += [word for key, one in value.items() for word in (option, f"{key}={one}")]
        elif isinstance(value, bool):
            words.append(option if value else f"--no-{option[2:]}")
        else:
            words += [option, ",".join(value) if isinstance(value, tuple) else str(value)]
    return words


def written(given: dict[str, Any]) -> str:
    def line(name: str, value: Any) -> str:
        if isinstance(value, dict):
            return f"{name} = {{ {', '.join(line(*pair) for pair in value.items())} }}"
        return f"{name} = {json.dumps(value, ensure_ascii=False)}"

    choice: dict[str, Any] = {
        name: given[name] for name in ("data_dir", "instances", "instances_field_map") if name in given
    }
    if "benchmark" in given:
        choice["name"] = given["benchmark"] if isinstance(given["benchmark"], str) else given["benchmark"][0]
    rest = {name: value for name, value in given.items() if name not in {"model", "benchmark", *choice}}
    parts = [*rest.items(), ("models", [given["model"]])]
    return "\n".join(line(*pair) for pair in parts) + "\n[[benchmark]]\n" + "\n".join(line(*p) for p in choice.items())


def go(door: str, path: Path, given: dict[str, Any]) -> int:
    """Makes a run, or goes on with it, through a door; gives the exit code that its command has."""
    if door == "command":
        return run_command_line(["run", str(path), *typed(given), "--json"])
    if door == "study":
        study = path.parent / f"{path.name}.toml"
        study.write_text(f'folder = "{path.name}-study"\n{written(given)}\n', encoding="utf-8")
        code = run_command_line(["run", str(study), "--json"])
        folder = path.parent / f"{path.name}-study"
        if folder.is_dir() and not path.exists():
            (made,) = folder.iterdir()
            path.symlink_to(made)
        return code
    try:
        Run.create(path, RunConfig(**given)) if door == "config" else Run.create(path, **given)
    except UsageError as error:
        return error.exit_code + str(error).count("\n")
    return 0


def recorded(path: Path) -> dict[str, Any]:
    kept = {"config", "provider_settings", "pack_digests", "data_digests", "file_digests", "available", "counts"}
    return Run(path).manifest.model_dump(mode="json", include=kept)


TOGETHER = (
    ("max_tokens", "batch_size", "sampling", "base_url", "api_key_env", "rpm", "tpm", "max_connections", "timeout"),
    ("languages", "splits", "variants", "option_order", "label_style", "system_prompt", "sample", "seed", "storage"),
    ("num_fewshot", "unknown_text", "max_error_rate", "follow_up"),
    ("cache_dir", "patience", "max_cost"),
    ("method", "normalization", "batch", "no_context"),
    ("stop_when_decided", "equivalence_margin"),
    ("stop_at_ci_width", "metric"),
    ("answers_per_template", "group_by"),
)
"""Settings that one run can have."""
ALONE = RunConfig.model_fields.keys() - {*FOR_ONE_COMMAND, "threads", "prompt_source"}
ALONE -= {name for names in TOGETHER for name in names}


@pytest.mark.parametrize(
    "names",
    [*TOGETHER, *(pytest.param((name,), marks=[pytest.mark.model] if name in LOCAL else []) for name in sorted(ALONE))],
    ids=" ".join,
)
def test_settings_give_one_manifest_through_every_door(names: tuple[str, ...], place: Path) -> None:
    values = {name: given_for(name, place) for name in names}
    given: dict[str, Any] = {}
    for one in values.values():
        given |= one
    given |= {name: one[name] for name, one in values.items()}
    for door in DOORS:
        go(door, place / door, given)
    manifests = [recorded(place / door) for door in DOORS]
    assert manifests[1:] == manifests[:-1]
    resolved = RunConfig(**given)
    for name in names:
        assert getattr(resolved, name) != RunConfig.model_fields[name].default
        kept = manifests[0]["config"][name]
        expected = RunConfig.model_fields[name].default if name == "data_dir" else None
        assert kept != expected
        if name != "data_dir":
            assert kept == json.loads(resolved.model_dump_json())[name]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Callable[[dict[str, Any]], Path]:
    made: dict[str, Path] = {}

    def find(given: dict[str, Any]) -> Path:
        key = json.dumps(given)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("run") / "run"
            Run.create(made[key], **given).execute()
        return made[key]

    return find


def again(door: str, before: Path, place: Path, given: dict[str, Any]) -> tuple[int, Path]:
    """Goes on with a copy of a run; a study is written for the folder that it would make."""
    path = place / door
    if door == "study":
        slug = f"{given['model'].replace(':', '-')}--{given['benchmark']}"
        shutil.copytree(before, place / "study-study" / slug)
    else:
        shutil.copytree(before, path)
    return go(door, path, given), path


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    "name",
    [name for name in RunConfig.model_fields if shapes(name) == "execution" and name not in {"threads"}],
)
def test_an_execution_setting_may_change(
    name: str, door: str, place: Path, finished: Callable[[dict[str, Any]], Path]
) -> None:
    before: dict[str, Any] = SMALL | ({"method": "generate,loglikelihood"} if name == "normalization" else {})
    if name in PROVIDER_SETTINGS:
        before |= {"model": "openai:fake", "base_url": (place / "server").read_text(encoding="utf-8")}
    change = {name: given_for(name, place)[name]}
    if setting_info(name)["group"] == "Stopping":
        before = ROUNDS
        change = {other: value for other, value in given_for(name, place).items() if other not in BASE}
    if name in {"workers", "gpus_per_worker"}:
        change["ray"] = "local"
    rest = {other: value for other, value in before.items() if other != "answers_per_template"}
    code, path = again(door, finished(before), place, {**rest, **change})
    assert code == 0
    assert recorded(path)["config"][name] == json.loads(RunConfig(**change).model_dump_json())[name]


@pytest.mark.parametrize("door", [*DOORS, "option alone"])
@pytest.mark.parametrize(
    "name", [name for name in RunConfig.model_fields if shapes(name) != "execution" and name != "make_control"]
)
def test_any_other_setting_is_refused_in_one_line(
    name: str, door: str, place: Path, finished: Callable[[dict[str, Any]], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    before = finished(SMALL)
    kept = recorded(before)
    given = given_for(name, place)
    capsys.readouterr()
    if door == "study":
        given = {**SMALL, name: given[name]}
        if name in {"model", "benchmark", "instances"}:
            pytest.skip("another run of the study")
    if door == "option alone":
        shutil.copytree(before, place / door)
        code, path = run_command_line(["run", str(place / door), *typed({name: given[name]})]), place / door
    else:
        if name in {"model", "benchmark"}:
            given[name] = "oracle:random" if name == "model" else "mbbq"
        code, path = again(door, before, place, given)
    assert code == 2
    assert len(capsys.readouterr().err.splitlines()) == (0 if door in {"config", "keywords"} else 1)
    assert recorded(path) == kept


@pytest.mark.parametrize(("given", "said"), cases("runs/run_config", "errors_have_one_form_in_the_words_of_the_door"))
def test_errors_have_one_form_in_the_words_of_the_door(
    given: dict[str, Any], said: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def shown(door: Spelling, value: Any) -> str:
        return "" if value is None else f"{door.equals}{value}"

    whole = {**SMALL, **given}
    with pytest.raises(ConfigError, match=said.replace("?", r"\?")) as caught:
        Run.create(place / "run", **whole)
    name, value = caught.value.setting, caught.value.value
    assert go("study", place / "run", whole) == 2
    assert capsys.readouterr().err.startswith(f"error: {place / 'run'}.toml: {FILE.name(name)}{shown(FILE, value)}: ")
    if name in RunConfig.model_fields:
        assert run_command_line(["run", str(place / "run"), *typed(whole)]) == 2
        assert capsys.readouterr().err.startswith(f"error: {COMMAND.name(name)}{shown(COMMAND, value)}: ")


def test_every_setting_says_what_it_does() -> None:
    for name, field in RunConfig.model_fields.items():
        assert field.description, name
        assert field.examples, name
        assert f"\n    {name}: " in (Run.create.__doc__ or "")


def test_the_schema_of_a_study_has_every_setting() -> None:
    schema = study_schema()["properties"]
    named = {"model": "models", "benchmark": "benchmarks"}
    places = {"data_dir", "instances", "instances_field_map"}
    for name in RunConfig.model_fields:
        inside = schema["benchmark"]["items"]["properties"]
        assert named.get(name, name) in (inside if name in places else schema)
    assert all("{" not in one.get("description", "") for one in schema.values())
