"""CSV files as people have them: delimiters, marks, NULLs, whole numbers beside fractions, text because of one cell."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.data.notes import Notes
from holdstrue.errors import DataError
from holdstrue.sources.read import read_table, schema_of


def read(path: Path, text: str | bytes, **options: Any) -> tuple[pa.Table, list[str]]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    notes = Notes()
    return read_table(path, notes=notes, **options), list(notes)


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_a_delimiter_is_found_and_said(delimiter: str, tmp_path: Path) -> None:
    text = 'id,name,x\n1,"a, b",2\n'.replace(",", delimiter).replace(f"a{delimiter} b", "a, b")
    table, notes = read(tmp_path / "a.csv", text)
    assert table.to_pylist() == [{"id": 1, "name": "a, b", "x": 2}]
    assert len(notes) == 1
    assert "separated by" in notes[0]
    assert schema_of(tmp_path / "a.csv").names == ["id", "name", "x"]


@pytest.mark.parametrize(
    "text",
    [
        "a;b\n1;2\n3\n",  # lines that do not agree
        "a;b|c\n1;2|3\n",  # two delimiters that do
        "a;b,c\n1,2\n",  # commas do
        "note\nhello; world\n",  # a header without
        '"a;b"\n1\n',
    ],
)
def test_a_delimiter_that_is_not_plain_is_not_guessed(text: str, tmp_path: Path) -> None:
    table, notes = read(tmp_path / "a.csv", text)
    assert not any("separated" in note for note in notes)
    assert table.column_names == text.splitlines()[0].replace('"', "").split(",")


def test_a_column_that_is_asked_for_is_not_cut(tmp_path: Path) -> None:
    table, _ = read(tmp_path / "a.csv", "a;b\n1;2\n", columns=["a;b"])
    assert table.to_pydict() == {"a;b": ["1;2"]}


def test_commas_in_an_unquoted_header_of_a_semicolon_file(tmp_path: Path) -> None:
    table, notes = read(tmp_path / "a.csv", "id;price, net;x\n1;1,50;a\n2;2;b\n")
    assert table.column_names == ["id", "price, net", "x"]
    assert any("decimal(comma)" in note and "'1,50' in row 1 of" in note for note in notes)


def test_marks_at_the_start(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "﻿id,b\n1,2\n".encode())[0].column_names == ["id", "b"]
    with pytest.raises(DataError, match=r"is utf-16(.|\n)*--encoding utf-16"):
        read(tmp_path / "a.csv", "id,b\n1,2\n".encode("utf-16"))
    table, _ = read(tmp_path / "a.csv", "id;b\n1;é\n".encode("utf-16"), encoding="utf-16")
    assert table.to_pydict() == {"id": [1], "b": ["é"]}


def test_null_values_add_to_the_empty_cell(tmp_path: Path) -> None:
    table, _ = read(tmp_path / "a.csv", 'a,b\n1,x\n,\nNA,"NA"\n', null_values=["NA"])
    assert table.to_pydict() == {"a": [1, None, None], "b": ["x", None, "NA"]}


# --- numbers that no double holds ------------------------------------------------------------------

WIDE = ["12345678901234567", "12345678901234568", "0.5"]
EXACT = [Decimal(cell) for cell in WIDE]


def test_whole_numbers_beside_fractions_stay_exact(tmp_path: Path) -> None:
    table, _ = read(tmp_path / "a.csv", "x\n" + "\n".join(WIDE) + "\n")
    assert table.column("x").to_pylist() == EXACT
    lines = tmp_path / "a.jsonl"
    lines.write_text("".join(f'{{"x": {cell}}}\n' for cell in WIDE))
    assert read_table(lines).column("x").to_pylist() == EXACT


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
@pytest.mark.parametrize("cut", [1, 2])
def test_so_they_do_over_several_files(cut: int, ending: str, tmp_path: Path) -> None:
    for name, cells in (("a", WIDE[:cut]), ("b", WIDE[cut:])):
        head, line = ("x\n", "{}\n") if ending == "csv" else ("", '{{"x": {}}}\n')
        (tmp_path / f"{name}.{ending}").write_text(head + "".join(line.format(cell) for cell in cells))
    assert read_table(str(tmp_path / f"*.{ending}")).column("x").to_pylist() == EXACT


def test_beside_text_they_are_text(tmp_path: Path) -> None:
    for name, cell in zip("abc", ["12345678901234567", "0.5", "no"], strict=True):
        (tmp_path / f"{name}.csv").write_text(f"x\n{cell}\n")
    assert read_table(str(tmp_path / "*.csv")).column("x").to_pylist() == ["12345678901234567", "0.5", "no"]


def test_doubles_are_as_usual(tmp_path: Path) -> None:
    for cells in (["0.1", "1e300"], ["9007199254740992", "0.5"], ["1.7976931348623157E308", "-3"], ["inf", "0.1"]):
        table, _ = read(tmp_path / "a.csv", "x\n" + "\n".join(cells) + "\n")
        assert table.schema.field("x").type == pa.float64(), cells
        assert table.column("x").to_pylist() == [float(cell) for cell in cells]


def test_what_neither_doubles_nor_decimals_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"12345678901234567, which no double holds(.|\n)*x=text"):
        read(tmp_path / "a.csv", "x\n12345678901234567\n1e-300\n")
    with pytest.raises(DataError, match="which no double holds"):
        read(tmp_path / "a.csv", "x\n12345678901234567\nnan\n")


# --- text because of a cell ------------------------------------------------------------------------


def test_the_cell_that_makes_a_column_text_is_named(tmp_path: Path) -> None:
    cells = [str(i) for i in range(50_000)]
    cells[41_234] = "n/a"
    _, notes = read(tmp_path / "a.csv", "x\n" + "\n".join(cells) + "\n")
    [note] = notes
    assert "because of 'n/a' in row 41235 of" in note
    assert "--null-value n/a" in note
    assert "--type x=text" in note
    cells[7] = "?"
    _, [note] = read(tmp_path / "a.csv", "x\n" + "\n".join(cells) + "\n")
    assert "because of '?' in row 8 of" in note
    assert "and 1 more" in note
    assert read(tmp_path / "a.csv", "x\n" + "\n".join(cells) + "\n", types={"x": "text"})[1] == []
    _, notes = read(tmp_path / "a.csv", "x\n" + "\n".join(cells) + "\n", null_values=["n/a", "?"])
    assert notes == []


@pytest.mark.parametrize(
    ("cells", "declare"),
    [
        (["31.01.2024", "01.02.2024"], "'x=date(%d.%m.%Y)'"),
        (["31/01/2024", "01/02/2024"], "'x=date(%d/%m/%Y)'"),
        (["01/31/2024", "01/02/2024"], "'x=date(%m/%d/%Y)'"),
        (["01/02/2024"], "'x=date(%d/%m/%Y)' (or date(%m/%d/%Y))"),
        (["31.01.2024 10:00"], "'x=timestamp(%d.%m.%Y %H:%M)'"),
        (["1,50", "2"], "'x=decimal(comma)'"),
    ],
)
def test_cells_that_must_be_declared_are_pointed_at(cells: list[str], declare: str, tmp_path: Path) -> None:
    _, [note] = read(tmp_path / "a.csv", "x;y\n" + "".join(f"{cell};1\n" for cell in cells), delimiter=";")
    assert f"declare --type {declare}" in note


def test_ordinary_text_is_not_talked_about(tmp_path: Path) -> None:
    assert read(tmp_path / "a.csv", "x\nBonn\nUlm\n1\n")[1] == []
    assert read(tmp_path / "a.csv", "x\nA1\n12\nB3\n14\n")[1] == []
