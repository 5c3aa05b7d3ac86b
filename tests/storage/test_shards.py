from __future__ import annotations

import shutil
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.errors import RunError
from mbbq_gen.core.records import Response
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.shards import FOLDER, IS_HERE, PACKED
from mbbq_gen.storage.store import RunStore
from tests.support.cases import cases
from tests.support.extraction import Capture, call, json_of, stderr_of


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for table, most in (("instances", 7), ("prompts", 20), ("responses", 30)):
        monkeypatch.setitem(PACKED, table, PACKED[table]._replace(max_records=most))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plain") / "run"
    asked = ["--model", "oracle:verbose_perfect", "--benchmark", "starter", "--languages", "en,tr", "--sample", "12"]
    assert run_quietly("run", path, *asked, "--splits", "bias", "--variants", "bare,letters", "--json") == 0
    return path


def run_quietly(*words: object) -> int:
    from mbbq_gen.cli.main import run_command_line

    return run_command_line([str(word) for word in words])


def copied(run: Path, folder: Path) -> Path:
    shutil.copytree(run, folder / "run")
    return folder / "run"


def packed(run: Path, folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    copy = copied(run, folder)
    with RunStore(copy / "run.sqlite") as store:
        store.records.enable_shards()
    return copy


def here(run: Path) -> dict[str, int]:
    with closing(sqlite3.connect(run / "run.sqlite")) as db:
        return {table: db.execute(f"SELECT count(*) FROM {table} WHERE {IS_HERE}").fetchone()[0] for table in PACKED}


def records(run: Path, table: str) -> list[tuple[Any, ...]]:
    with RunStore(run / "run.sqlite", read_only=True) as store:
        rows = store.query(f"SELECT * FROM {table} ORDER BY 1").fetchall()
        return [(*row[:-1], store.text(row[-1])) if table in PACKED else row for row in rows]


@pytest.mark.slow
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "words", cases("storage/shards", "commands"), ids=lambda words: " ".join(words[:1] + words[2:])
)
def test_commands_say_the_same_of_both(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, plain: Path, words: list[str]
) -> None:
    said = []
    for name, make in (("one", copied), ("two", packed)):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        run, out = make(plain, tmp_path / name), Path("out")
        code, stdout, _ = call(capsys, *[word.format(run="run", out=out, other=plain) for word in words])
        files = [out] if out.is_file() else sorted(filter(Path.is_file, out.rglob("*")))
        said.append((code, stdout, {path.name: path.read_bytes() for path in files}))
    assert said[0] == said[1]
    assert said[0][0] == 0
    assert here(run)["responses"] == 0


@pytest.mark.usefixtures("small")
def test_a_run_keeps_shards_from_its_first_answer(capsys: Capture, tmp_path: Path, plain: Path) -> None:
    script = tmp_path / "answers.jsonl"
    script.write_text('{"response": "A"}\n{"error": "not now"}\n{"response": "B"}\n', encoding="utf-8")
    given = ["--model", f"scripted:{script}", "--benchmark", "starter", "--languages", "en", "--sample", "40"]
    given += ["--max-error-rate", "1", "--json"]
    runs = {"one": [], "two": ["--storage", "parquet"]}
    for name, more in runs.items():
        assert call(capsys, "run", tmp_path / name, *given, *more)[0] in {0, 1}
    failed = json_of(capsys, "status", tmp_path / "two")["failed"]
    assert failed
    assert here(tmp_path / "two") == {"instances": 0, "prompts": 0, "responses": failed}
    for name in runs:
        with RunFolder(tmp_path / name).open_store() as store:
            rows = store.query("SELECT request_key FROM responses WHERE is_error = 1 ORDER BY 1").fetchall()
            now = "2026-01-01T00:00:00.000+00:00"
            store.add_responses([(Response(request_key=key, text="C", finish_reason="stop"), now) for (key,) in rows])
            store.records.pack()
    assert here(tmp_path / "two")["responses"] == 0
    one, two = ([(row[0], row[1], row[3]) for row in records(tmp_path / name, "responses")] for name in runs)
    assert one == two


def lose(path: Path) -> None:
    path.unlink()


def damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(("harm", "word"), [(lose, "missing"), (damage, "damaged")])
def test_a_lost_file_is_one_line_and_loses_nothing_else(
    capsys: Capture, tmp_path: Path, plain: Path, harm: Callable[[Path], None], word: str
) -> None:
    run = packed(plain, tmp_path / "two")
    scores = call(capsys, "score", plain, "--json")[1]
    victim = sorted((run / FOLDER).glob("responses-*"))[1]
    kept = victim.read_bytes()
    harm(victim)
    for command in (["export", run, "--csv", tmp_path / "out"], ["extract", run, "--extractor", "first-label"]):
        err = stderr_of(capsys, *command, code=1)
        lines = [line for line in err.splitlines() if line.startswith("error: ")]
        assert lines == [
            f"error: {victim}: {word}"
            + (" (its digest differs from its name)" if word == "damaged" else "")
            + "; put back a copy of it, or make the run again in another folder"
        ]
    assert call(capsys, "score", run, "--json")[1].replace(str(run), str(plain)) == scores, "needs no texts"
    victim.write_bytes(kept)
    assert call(capsys, "extract", run, "--extractor", "first-label")[0] == 0


@pytest.mark.usefixtures("small")
def test_a_lost_part_of_the_plan_has_to_be_put_back(capsys: Capture, tmp_path: Path, plain: Path) -> None:
    run = packed(plain, tmp_path / "two")
    victim = sorted((run / FOLDER).glob("prompts-*"))[0]
    aside = victim.rename(tmp_path / victim.name)
    code, _, err = call(capsys, "diff", run, plain, "--json")
    assert (code, err.strip().splitlines()[-1]) == (
        1,
        f"error: {victim}: missing; put back a copy of it, or make the run again in another folder",
    )
    assert call(capsys, "score", run, "--json")[0] == 0  # scores need no texts of the plan
    aside.rename(victim)
    assert call(capsys, "diff", run, plain, "--json")[0] == 0


@pytest.mark.usefixtures("small")
def test_a_process_that_ends_between_file_and_places_loses_nothing(tmp_path: Path, plain: Path) -> None:
    run = copied(plain, tmp_path)
    with RunStore(run / "run.sqlite") as store:
        store._db.execute("CREATE TEMP TRIGGER ends BEFORE INSERT ON responses WHEN NEW.record LIKE '%:7'"
                          " BEGIN SELECT raise(ABORT, 'the power is gone'); END")  # fmt: skip
        with pytest.raises(RunError, match="the power is gone"):
            store.records.enable_shards()
    orphans = set((run / FOLDER).glob("responses-*"))
    assert len(orphans) == 1
    assert records(run, "responses") == records(plain, "responses")
    with RunStore(run / "run.sqlite") as store:
        store.records.pack()
    assert here(run)["responses"] == 0
    assert records(run, "responses") == records(plain, "responses")


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("answer"), st.lists(st.integers(0, 40), min_size=1, max_size=9)),
        st.tuples(st.just("failure"), st.lists(st.integers(0, 40), min_size=1, max_size=3)),
        st.tuples(st.sampled_from(["pack", "keep", "open"]), st.just([])),
    ),
    max_size=25,
)


@given(EVENTS)
def test_a_store_gives_back_what_it_was_given(events: list[tuple[str, list[int]]]) -> None:
    known: dict[str, Response] = {}
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setitem(PACKED, "responses", PACKED["responses"]._replace(max_records=5))
        path = Path(name) / "run.sqlite"
        store = RunStore(path)
        for step, (event, numbers) in enumerate(events):
            if event == "pack":
                store.records.pack()
            elif event == "keep":
                store.records.enable_shards()
            elif event == "open":
                store.close()
                store = RunStore(path)
            else:
                failure = event == "failure"
                said = {"error": "no"} if failure else {"text": f"{step}"}
                responses = [Response(request_key=f"key-{number}", **said) for number in dict.fromkeys(numbers)]
                store.add_responses([(response, f"{step:03}") for response in responses])
                for response in responses:
                    if known.get(response.request_key) is None or known[response.request_key].error:
                        known[response.request_key] = response
        rows = [
            (key, is_error, store.read(Response, record))
            for key, is_error, record in store.query("SELECT request_key, is_error, record FROM responses")
        ]
        store.close()
    assert {key: response for key, _, response in rows} == known
    assert all(bool(is_error) == (known[key].error is not None) for key, is_error, _ in rows)
