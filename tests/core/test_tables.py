from __future__ import annotations

import math
from pathlib import Path

import pytest

from mbbq_gen.core.errors import DataError, PackError, UsageError
from mbbq_gen.core.tables import MOST_DEPTH, UnreadableError, json_value, lines_of, table_rows
from mbbq_gen.languages.packs import read_toml

ENCODINGS = ("utf-8", "utf-8-sig")


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_every_encoding_gives_every_line(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes('{"a": "é"}\n\n{"a": "😀"}\n'.encode(encoding))
    assert [(number, json_value(line)) for number, line in lines_of(path)] == [(1, {"a": "é"}), (3, {"a": "😀"})]


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_every_encoding_and_delimiter_gives_every_row(tmp_path: Path, encoding: str, delimiter: str) -> None:
    path = tmp_path / "rows.csv"
    text = f'id{delimiter}"the, answer; here"\r\n1{delimiter}"é\n{delimiter}"\r\n2{delimiter}b\r\n'
    path.write_bytes(text.encode(encoding))
    expected = [(2, {"id": "1", "the, answer; here": f"é\n{delimiter}"}), (4, {"id": "2", "the, answer; here": "b"})]
    assert list(table_rows(path)) == expected


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a".encode("utf-32"), "UTF-32"),
        ('{"a": 1}'.encode("utf-16-le"), "UTF-16"),
        (b"\x1f\x8b\x08\x00abc", "a gzip file"),
        (b"PK\x03\x04abcdef", "a zip file"),
        (b"PAR1abcdef", "a Parquet file"),
        ('{"a": 1}'.encode("utf-16"), "UTF-16"),
    ],
)
def test_what_is_no_text_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_bytes(content)
    with pytest.raises(DataError, match=said):
        list(lines_of(path))
    with pytest.raises(UsageError, match=r"nothing\.jsonl"):
        list(lines_of(tmp_path / "nothing.jsonl"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": NaN}', {"a": None}),
        ('{"a": -Infinity}', {"a": -math.inf}),
        (r'{"a\ud83d": ["B \ud83d", "\ud83d\ude00"]}', {"a\ufffd": ["B \ufffd", "😀"]}),
        (b'{"a": "\xed\xa0\xbd"}', {"a": "\ufffd"}),
        ("[" * MOST_DEPTH + "]" * MOST_DEPTH, None),
    ],
)
def test_numbers_and_halves_of_characters(text: str | bytes, value: object) -> None:
    found = json_value(text)
    assert value is None or found == value


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 500 + "1" + "}" * 500, "[" * 101 + "]" * 101, '{"id": ' + "9" * 200_000 + "}", '{"a": "'],
)
def test_hostile_json_is_refused(text: str) -> None:
    with pytest.raises(UnreadableError):
        json_value(text)


@pytest.mark.parametrize(
    "text",
    [
        ".".join(["a"] * 100_000) + " = 1\n",
        "[" + ".".join(['"a"'] * 60_000) + "]\n",
        "[" + " . ".join([r'"\""'] * 60_000) + "]\n",
        "a = " + "[" * 100_000,
        "a = " + "9" * 200_000,
        "a = " + "{a=" * 50_000,
        "#" * (5 << 20),
    ],
)
def test_hostile_toml_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pack.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(PackError, match=r"pack\.toml"):
        read_toml(path)


def test_a_text_full_of_dots_is_no_long_key(tmp_path: Path) -> None:
    path = tmp_path / "pack.toml"
    path.write_text('a = "' + "… . ... " * 200 + '"\n', encoding="utf-8")
    assert set(read_toml(path)) == {"a"}
