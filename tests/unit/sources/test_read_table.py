"""Tables from every kind of source, and what is said when one cannot be read."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import warnings
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from holdstrue import check
from holdstrue.errors import DataError
from holdstrue.sources.columnar import small_dictionaries
from holdstrue.sources.read import read_table, schema_of

TABLE = pa.table({"id": [1, 2], "zip": ["a", None]})


def fails(text: str, hint: str | None = None) -> pytest.RaisesExc[DataError]:
    def check(error: DataError) -> bool:
        assert text in error.message, error.message
        assert hint is None or hint in (error.hint or ""), error.hint
        return True

    return pytest.RaisesExc(DataError, check=check)


def save(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# --- objects in memory -------------------------------------------------------------------------


def test_arrow_objects() -> None:
    batch = TABLE.to_batches()[0]
    for source in (
        TABLE,
        batch,
        pa.RecordBatchReader.from_batches(TABLE.schema, [batch]),
        ds.dataset(TABLE),
        TABLE.to_pydict(),
        TABLE.to_pylist(),
    ):
        assert read_table(source).equals(TABLE)
    assert read_table(ds.dataset(TABLE), columns=["zip"]).column_names == ["zip"]
    assert schema_of(TABLE) == TABLE.schema


def test_data_frames() -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    frame = pd.DataFrame({"id": [1, 2], "rate": [0.5, None]}, index=[7, 9])
    assert read_table(frame).to_pydict() == {"id": [1, 2], "rate": [0.5, None]}
    category = pl.DataFrame({"id": [1, 2], "zip": pl.Series(["a", None], dtype=pl.Categorical)})
    assert read_table(category).equals(TABLE)
    assert read_table(category).schema.field("zip").type == pa.string()


def test_dictionaries_are_decoded_and_schema_of_agrees() -> None:
    encoded = pa.table({"zip": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert read_table(encoded).schema.field("zip").type == pa.string()
    assert schema_of(encoded).field("zip").type == pa.string()


def test_a_link_that_leads_nowhere_is_not_taken_for_what_was_meant(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").symlink_to(tmp_path / "gone")
    with fails("there is no file", hint="check the path"):
        read_table(tmp_path / "rows.csv")


def test_numbers_of_numpy_in_records_mean_what_they_are() -> None:
    """Arrow makes -1.0 of the highest unsigned number beside a float, and 1 of true beside an integer."""
    records = [{"id": 1, "a": np.uint64(2**64 - 1)}, {"id": 2, "a": -1.0}]
    with pytest.raises(DataError, match="18446744073709551615"):
        check(records, "key(a)", key="id")
    assert check([{"a": np.uint64(7)}, {"a": 7.0}, {"a": np.int8(7)}], "key(a)").total == 3
    with pytest.raises(DataError, match="record 2: column 'a' holds 1, but record 1 holds"):
        check([{"a": np.bool_(True)}, {"a": 1}], "key(a)")


def test_records_have_the_union_of_names() -> None:
    assert read_table([{"id": 1}, {"zip": "a"}]).to_pydict() == {"id": [1, None], "zip": [None, "a"]}
    big = read_table([{"n": 2**70}, {"n": 1}])
    assert big.to_pydict() == {"n": [Decimal(2**70), Decimal(1)]}
    with fails("record 2: column 'n' holds 'x', but record 1 holds 1"):
        read_table([{"n": 1}, {"n": "x"}])
    with fails("over 38 digits"):
        read_table([{"n": 10**40}])


def test_objects_that_are_no_table() -> None:
    with fails("cannot read a table from int", "pandas or polars"):
        read_table(3)
    with fails("cannot read a table from list"):
        read_table([1, 2])
    with fails("two columns named 'a'", "rename"):
        read_table(pa.table([[1], [2]], names=["a", "a"]))


def test_schema_on_objects_names_the_row() -> None:
    wanted = pa.schema([("id", pa.int32()), ("zip", pa.string())])
    assert read_table(TABLE, schema=wanted).schema == wanted
    with fails("row 2 of the table: column 'id' holds 2.5, expected a whole number (int64)"):
        read_table(pa.table({"id": [1.0, 2.5]}), schema=pa.schema([("id", pa.int64())]))
    with fails("row 1 of the table: column 'zip' holds 501, expected text (string)", "is int64 here and string"):
        read_table(pa.table({"zip": [501]}), schema=pa.schema([("zip", pa.string())]))


# --- formats -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [
    "t.csv", "t.csv.gz", "t.tsv", "t.parquet", "t.pq", "t.arrow", "t.arrows", "t.feather",
    "t.jsonl", "t.json",
])  # fmt: skip
def test_formats_by_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if ".csv" in name or ".tsv" in name:
        text = "id,zip\n1,a\n2,\n".replace(",", "\t" if ".tsv" in name else ",")
        save(path, gzip.compress(text.encode()) if name.endswith("gz") else text)
    elif name.endswith(("parquet", "pq")):
        pq.write_table(TABLE, path)
    elif name.endswith("feather"):
        feather.write_feather(TABLE, str(path))
    elif "arrow" in name:
        make = pa.ipc.new_stream if name.endswith("s") else pa.ipc.new_file
        with make(str(path), TABLE.schema) as writer:
            writer.write_table(TABLE)
    elif name.endswith("jsonl"):
        save(path, "\n".join(map(json.dumps, TABLE.to_pylist())))
    else:
        save(path, json.dumps(TABLE.to_pylist(), indent=2))
    assert read_table(path).equals(TABLE)
    assert read_table(str(path), columns=["zip", "id"]).column_names == ["zip", "id"]
    assert schema_of(path) == TABLE.schema
    with fails(f"{path} has no column 'zipp'", "did you mean 'zip'? there are: id, zip"):
        read_table(path, columns=["zipp"])
    wanted = pa.schema([("id", pa.float64())])
    assert read_table(path, schema=wanted).schema.field("id").type == pa.float64()


def test_format_can_be_given(tmp_path: Path) -> None:
    path = save(tmp_path / "data.txt", '{"id": 1}')
    assert read_table(path, format="jsonl").to_pydict() == {"id": [1]}
    other = save(tmp_path / "data.dat", "id\n1\n")
    assert read_table(other, format="csv").to_pydict() == {"id": [1]}
    with fails("cannot tell the format of", "csv, tsv, parquet, arrow, json"):
        read_table(other)
    with fails("unknown format 'xls'", "one of csv"):
        read_table(other, format="xls")


# --- several files -----------------------------------------------------------------------------


def test_globs_lists_and_directories_in_sorted_order(tmp_path: Path) -> None:
    b, a = save(tmp_path / "b.csv", "id,n\n2,1.5\n"), save(tmp_path / "a.csv", "id,n\n1,1\n")
    save(tmp_path / "_SUCCESS", "")
    expected = {"id": [1, 2], "n": [1.0, 1.5]}
    assert read_table(str(tmp_path / "*.csv")).to_pydict() == expected
    assert read_table(tmp_path).to_pydict() == expected
    assert read_table([a, b]).to_pydict() == expected
    assert read_table([b, a]).to_pydict()["id"] == [2, 1]


def test_files_that_differ(tmp_path: Path) -> None:
    a, b = save(tmp_path / "a.csv", "zip\n00501\n"), save(tmp_path / "b.csv", "zip\nA12\n")
    assert read_table([a, b]).to_pydict() == {"zip": ["00501", "A12"]}, "as if it were one file"
    c = save(tmp_path / "c.csv", "zip,x\n1,2\n")
    with fails(f"{a} has no column 'x', {c} has"):
        read_table([a, c])
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    pq.write_table(pa.table({"z": [1]}), one)
    pq.write_table(pa.table({"z": ["x"]}), two)
    with fails(f"column 'z' has several types: int64 in {one}, string in {two}"):
        read_table([one, two])
    int_file = save(tmp_path / "int.csv", "n\n1152921504606846977\n")
    exact = read_table([int_file, save(tmp_path / "float.csv", "n\n5.5\n")])
    assert exact.column("n").to_pylist() == [Decimal("1152921504606846977"), Decimal("5.5")]
    with fails("files of several formats"):
        read_table(tmp_path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    save(tmp_path / "tax.csv", "id\n1\n")
    with fails("there is no file", "did you mean"):
        read_table(tmp_path / "tx.csv")
    with fails("there is no file", "there is no directory"):
        read_table(tmp_path / "no" / "tx.csv")
    with fails("no file matches"):
        read_table(str(tmp_path / "*.parquet"))
    (tmp_path / "empty").mkdir()
    with fails("has no data files", ".parquet"):
        read_table(tmp_path / "empty")
    (tmp_path / "deep" / "year=2020").mkdir(parents=True)
    with fails("no data files directly in it", "**/*.parquet"):
        read_table(tmp_path / "deep")


def test_a_name_with_brackets_is_a_name_first(tmp_path: Path) -> None:
    assert read_table(save(tmp_path / "a[1].csv", "id\n1\n")).num_rows == 1


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow"])
def test_damaged_files(tmp_path: Path, name: str) -> None:
    for content, text in ((b"", "it is empty"), (b"not a table, not at all", "damaged or not")):
        path = save(tmp_path / name, content)
        with fails(text, "write the file again"):
            read_table(path)
        with fails(text):
            schema_of(path)
    pq.write_table(TABLE, tmp_path / "whole.parquet")
    cut = save(tmp_path / "cut.parquet", (tmp_path / "whole.parquet").read_bytes()[:-20])
    with fails("damaged or not Parquet"):
        read_table(cut)


# --- CSV ---------------------------------------------------------------------------------------


def test_csv_nulls_and_quotes(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", 'a,b,c\n"",1,\n,NA,\n"x\ny",3,\n')
    table = read_table(path)
    assert table.column("a").to_pylist() == ["", None, "x\ny"]
    assert table.column("b").to_pylist() == ["1", "NA", "3"]
    assert table.schema.field("c").type == pa.null()
    assert read_table(path, null_values=["", "NA"]).column("b").to_pylist() == [1, None, 3]


def test_csv_whole_numbers_stay_exact(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "n,f,g\n12345678901234567890123,1e30,-99999999999999999999\n1,2.5,\n")
    table = read_table(path)
    assert table.column("n").to_pylist() == [Decimal("12345678901234567890123"), Decimal(1)]
    assert table.schema.field("g").type == pa.decimal128(38, 0)
    assert table.column("f").to_pylist() == [1e30, 2.5]
    long = save(tmp_path / "b.csv", "n\n" + "9" * 40 + "\n")
    with fails("which no double holds exactly", "declare --type n=text"):
        read_table(long)
    assert read_table(long, types={"n": "number"}).schema.field("n").type == pa.float64()


def test_csv_times(tmp_path: Path) -> None:
    path = save(
        tmp_path / "a.csv",
        "d,t,z,n\n2024-01-31,2024-01-31 10:00:00,2024-01-31T10:00:00Z,2024-01-31 10:00:00.123456789\n",
    )
    types = [field.type for field in read_table(path).schema]
    assert types == [pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.timestamp("ns")]
    assert schema_of(path).types[:3] == types[:3]
    far = save(tmp_path / "b.csv", "t\n9999-12-31 00:00:00\n")
    assert read_table(far).column(0).to_pylist() == [dt.datetime(9999, 12, 31)]


def test_csv_types_that_arrow_does_not_read_itself(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "a,b\nx,1\n")
    schema = pa.schema([("a", pa.string_view()), ("b", pa.decimal256(50, 0))])
    assert read_table(path, schema=schema).schema == schema
    with fails(f"row 1 of {path}: column 'a' holds 'x', expected list<item: int64>"):
        read_table(path, schema=pa.schema([("a", pa.list_(pa.field("item", pa.int64())))]))


def test_csv_without_rows(tmp_path: Path) -> None:
    for text in ("a,b\n", "a,b", "\ufeffa,b\n"):
        table = read_table(save(tmp_path / "a.csv", text))
        assert (table.column_names, table.num_rows) == (["a", "b"], 0)
    typed = read_table(tmp_path / "a.csv", schema=pa.schema([("b", pa.int64()), ("zz", pa.int64())]))
    assert typed.schema.types == [pa.null(), pa.int64()]
    with fails("is empty: it has no header line", "names its columns"):
        read_table(save(tmp_path / "b.csv", ""))


def test_csv_rows_of_wrong_length(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "a,b\n1,2\n3\n4,5\n")
    with fails(f"row 2 of {path} has 1 values, the header has 2: 3", "quote values"):
        read_table(path)
    with fails("row 1 of"):
        read_table(save(tmp_path / "b.csv", "a,b\n1,2,3\n"))


def test_csv_header_troubles(tmp_path: Path) -> None:
    with fails("has two columns named 'a'"):
        read_table(save(tmp_path / "a.csv", "a,b,a\n1,2,3\n"))
    semicolon = save(tmp_path / "b.csv", "a;b\n1;2\n")
    with fails("has one column 'a;b'", "delimiter seems to be ';'"):
        read_table(save(tmp_path / "c.csv", "a;b\n1;2\n3\n"), columns=["a"])
    assert read_table(semicolon, delimiter=";").to_pydict() == {"a": [1], "b": [2]}
    assert schema_of(semicolon, delimiter=";").names == ["a", "b"]


def test_csv_encodings(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", "id,city\n1,x\n2,Z\u00fcrich\n".encode("latin-1"))
    assert read_table(path, encoding="latin-1").column("city").to_pylist() == ["x", "Zürich"]
    with fails(f"is not utf8 text: row 2 of {path}, column 'city' holds", "`--encoding latin-1`"):
        read_table(path)
    with fails(f"is not utf8 text: row 2 of {path}, column 'city'", "`--encoding latin-1`"):
        read_table(path, schema=pa.schema([("city", pa.string())]))
    with fails("is not ascii text"):
        read_table(path, encoding="ascii")
    with fails("unknown encoding 'nope'", "cp1252"):
        read_table(path, encoding="nope")
    with fails("is not utf8 text"):
        read_table(save(tmp_path / "b.csv", "\u00fc,b\n1,2\n".encode("latin-1")))
    wide = save(tmp_path / "c.csv", "id,city\n1,Zürich\n".encode("utf-16"))
    assert read_table(wide, encoding="utf-16").to_pydict() == {"id": [1], "city": ["Zürich"]}


def test_files_that_are_no_text(tmp_path: Path) -> None:
    pq.write_table(TABLE, tmp_path / "a.parquet")
    with fails("its first line holds NUL bytes", "give its format"):
        read_table(tmp_path / "a.parquet", format="csv")
    with fails("cannot read", "damaged"):
        read_table(save(tmp_path / "a.csv.gz", b"not gzip"))
    with fails("cannot read", "damaged"):
        whole = gzip.compress("\n".join(["a,b"] + [f"{i},{i * i % 977}" for i in range(50_000)]).encode())
        read_table(save(tmp_path / "b.csv.gz", whole[:-40]))
    with fails("cannot read the columns"):
        read_table({"a": [1], "b": [1, 2]})


def test_csv_open_quote(tmp_path: Path) -> None:
    path = save(tmp_path / "a.csv", 'a,b\n1,x\n2,"y\n3,z\n4,w\n')
    with fails(f"row 2 of {path} has a quote that is never closed"):
        read_table(path)


@pytest.mark.parametrize(("type_", "bad", "expected"), [
    (pa.int64(), "x", "'x', expected a whole number (int64)"),
    (pa.int64(), "1.5", "'1.5', expected a whole number (int64)"),
    (pa.int8(), "300", "'300', expected a whole number (int8)"),
    (pa.float64(), "a", "'a', expected a number (double)"),
    (pa.bool_(), "maybe", "'maybe', expected true or false (bool)"),
    (pa.date32(), "31.1.2024", "'31.1.2024', expected a date like 2024-01-31 (date32[day])"),
    (pa.timestamp("us"), "soon", "'soon', expected a date and time without zone"),
    (pa.timestamp("us", "UTC"), "2024-01-31 10:00", "'2024-01-31 10:00', expected a date and time with zone"),
    (pa.decimal128(10, 2), "1.005", "'1.005', expected a decimal number (decimal128(10, 2))"),
])  # fmt: skip
def test_csv_value_that_does_not_fit(tmp_path: Path, type_: pa.DataType, bad: str, expected: str) -> None:
    path = save(tmp_path / "a.csv", f"id,v\n1,\n\n2,{bad}\n3,\n")
    with fails(f"row 2 of {path}: column 'v' holds {expected}"):
        read_table(path, schema=pa.schema([("v", type_)]))


def test_csv_large_quoted_values_across_blocks(tmp_path: Path) -> None:
    table = pa.table({"id": list(range(30_000)), "note": [f"line\n{i}," + "x" * 60 for i in range(30_000)]})
    pacsv.write_csv(table, tmp_path / "a.csv")
    assert read_table(tmp_path / "a.csv").equals(table)


# --- JSON --------------------------------------------------------------------------------------


def test_json_types(tmp_path: Path) -> None:
    lines = [
        {"id": 1, "d": "2024-01-31", "z": "2024-01-31T10:00:00+02:00", "big": 2**70, "s": "x"},
        {"id": 2, "d": None, "big": 1},
    ]
    path = save(tmp_path / "a.jsonl", "\n".join(map(json.dumps, lines)))
    table = read_table(path)
    assert table.schema.field("d").type == pa.date32()
    assert table.column("z")[0].as_py() == dt.datetime(2024, 1, 31, 8, tzinfo=dt.UTC)
    assert table.column("big").to_pylist() == [Decimal(2**70), Decimal(1)]
    text = read_table(path, schema=pa.schema([("d", pa.string()), ("gone", pa.int64())]))
    assert text.column("d").to_pylist() == ["2024-01-31", None]
    assert "gone" not in text.column_names


def test_json_with_schema(tmp_path: Path) -> None:
    path = save(tmp_path / "a.jsonl", '{"p": "1.50", "n": 3.0, "t": "10:00:00"}\n{"p": 2.25, "n": 4}\n')
    schema = pa.schema([("p", pa.decimal128(10, 2)), ("n", pa.int64()), ("t", pa.time64("us"))])
    assert read_table(path, schema=schema).to_pydict() == {
        "p": [Decimal("1.50"), Decimal("2.25")],
        "n": [3, 4],
        "t": [dt.time(10), None],
    }
    with fails(f"line 2 of {path}: column 'p' holds 2.25, expected a decimal number (decimal128(10, 1))"):
        read_table(path, schema=pa.schema([("p", pa.decimal128(10, 1))]))
    with fails(f"line 1 of {path}: column 'n' holds 3.0, expected a date like"):
        read_table(path, columns=["n"], schema=pa.schema([("n", pa.date32())]))


def test_json_troubles(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with fails(f"line 2 of {path}: column 'a' holds 'x', but line 1 of {path} holds 1"):
        read_table(save(path, '{"a": 1}\n{"a": "x"}\n'))
    assert read_table(save(path, '{"a": 1, "b": 1}\n{"a": "x", "b": 2}\n'), columns=["b"]).num_rows == 2
    with fails(f"line 2 of {path} is not JSON", "one whole object"):
        read_table(save(path, '{"a": 1}\n{"a": \n'))
    with fails(f"line 2 of {path} is not an object: null"):
        read_table(save(path, '{"a": 1}\nnull\n'))
    with fails(f"{path} is empty"):
        read_table(save(path, ""))
    assert read_table(save(path, ""), schema=TABLE.schema).num_rows == 0
    with fails("is not JSON", "one array"):
        read_table(save(tmp_path / "a.json", '[{"a": 1'))
    with fails("is not utf8 text", "latin-1"):
        read_table(save(path, '{"a": "ü"}'.encode("latin-1")))
    assert read_table(path, encoding="latin-1").to_pydict() == {"a": ["ü"]}


def test_a_lazy_frame_is_refused_without_running_it() -> None:
    lazy = pytest.importorskip("polars").LazyFrame({"id": [1]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for read in (read_table, schema_of):
            with fails("LazyFrame", ".collect()"):
                read(lazy)


def test_an_empty_json_file_has_a_hint_one_can_follow(tmp_path: Path) -> None:
    with fails("is empty", "at least one object, one a line"):
        read_table(save(tmp_path / "e.jsonl", ""))


def test_a_delimiter_of_several_characters_is_refused(tmp_path: Path) -> None:
    with fails("delimiter 'xx'", "one ASCII character"):
        read_table(save(tmp_path / "a.csv", "a,b\n1,2\n"), delimiter="xx")


def test_text_that_hardly_repeats_is_read_as_text(tmp_path: Path) -> None:
    """Short row groups have dictionaries of nearly all their values, which spare nothing."""
    rows = np.arange(40_000)
    table = pa.table({"phone": pa.array((rows + 5_000_000).astype(str)), "city": pa.array((rows % 50).astype(str))})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=10_000)
    with pq.ParquetFile(tmp_path / "t.parquet") as opened:
        assert all(opened.metadata.row_group(group).column(0).has_dictionary_page for group in range(4))
        assert small_dictionaries(opened, ["phone", "city"]) == ["city"]
    assert check(tmp_path / "t.parquet", ["key(phone)", "phone -> city"], limit=0).ok
    again = pa.concat_tables([table, table.slice(17, 2)])
    pq.write_table(again, tmp_path / "t.parquet", row_group_size=10_000)
    [result] = check(tmp_path / "t.parquet", ["key(phone)"], limit=0).results
    assert (result.counts.rows, result.counts.groups) == (4, 2)
