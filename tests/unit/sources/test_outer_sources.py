"""What goes wrong with data that is elsewhere: every case is named, with what to do, and no secret is repeated."""

from __future__ import annotations

import gzip
import os
import sqlite3
import stat
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import holdstrue
from holdstrue.errors import DataError
from holdstrue.location import shown
from holdstrue.sources.read import read_table, schema_of
from holdstrue.sources.ways import WAYS
from unit.cli.runs import PEOPLE, run, run_json, write
from ways import Tools, csv_bytes, parquet_bytes, rows, tools

__all__ = ["tools"]


def fails(source: Any, said: str, hint: str = "", **options: Any) -> None:
    """Reading says what is wrong and what to do."""
    with pytest.raises(DataError) as caught:
        read_table(source, **options)
    assert said in caught.value.message, caught.value.message
    assert caught.value.hint
    assert hint in caught.value.hint, caught.value.hint
    assert "geheim" not in str(caught.value)


def test_schemes_that_nothing_reads(tmp_path: Path) -> None:
    fails("postgre://h/db", "cannot be read from postgre://", "did you mean postgres://?")
    fails("htps://h/t.csv", "cannot be read from htps://", "did you mean https://?")
    fails("hdfs://n/x", "cannot be read from hdfs://", "s3://BUCKET/PATH")
    fails("mysql://me:geheim@h/db", "mysql://me:***@h/db")
    odd = tmp_path / "sqlite:t.csv"
    write(odd, "id\n1\n")
    assert read_table(odd).num_rows == 1


def test_every_way_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path / "t.db", "")
    cases = {
        "duckdb": ("duckdb", f"duckdb:{tmp_path}/t.db?table=t", "holdstrue[duckdb]"),
        "postgresql": ("adbc_driver_postgresql.dbapi", "postgresql://h/db?table=t", "holdstrue[postgresql]"),
        "adbc": ("adbc_driver_duckdb.dbapi", "adbc:duckdb?table=t", "adbc-driver-duckdb"),
        "iceberg": ("pyiceberg.catalog", "iceberg:c.n.t", "holdstrue[iceberg]"),
    }
    for module, source, extra in cases.values():
        monkeypatch.setitem(sys.modules, module, None)
        fails(source, "not installed", extra)
    # obstore is looked for, not imported
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for source in ("s3://b/t.csv", "gs://b/t.csv", "az://b/t.csv"):
        fails(source, "data in object stores need the package obstore", "holdstrue[objects]")
    assert set(cases) | {"-", "http", "s3", "gs", "az", "sqlite"} == {way.schemes[0] for way in WAYS}


def test_standard_input(people_bytes: bytes) -> None:
    rule = ("--rule", "zip -> city", "--key", "id")
    found = run_json("check", "-", *rule, code=1, sent=people_bytes)
    assert found["rules"][0]["pairs"] == 2
    tabs = people_bytes.replace(b",", b"\t")
    assert run_json("check", "-", *rule, "--input-format", "tsv", code=1, sent=tabs) == found
    lines = b"".join(b'{"id": %d, "zip": 1, "city": "%d"}\n' % (i, i) for i in range(3))
    assert run_json("check", "-", *rule, code=1, sent=lines)["rules"][0]["pairs"] == 3
    empty = run("check", "-", *rule, sent=b"")
    assert (empty.exit_code, "standard input is empty" in empty.stderr) == (2, True)
    both = run("check", "-", "--rules", "-", sent=people_bytes)
    assert "both to come from standard input" in both.stderr
    broken = run("check", "-", *rule, sent=gzip.compress(people_bytes)[:20])
    assert broken.exit_code == 2
    assert "standard input" in broken.stderr
    wrong = run("check", "-", *rule, "--input-format", "parquet", sent=people_bytes)
    assert "standard input is damaged or not Parquet" in wrong.stderr
    bad = run("check", "-", "--rule", "not(t.id < 0)", "--type", "zip=integer", sent=b"id,zip\n1,x\n")
    assert bad.exit_code == 0  # zip is not read
    bad = run("check", "-", "--rule", "not(t.zip < 0)", "--type", "zip=integer", sent=b"id,zip\n1,x\n")
    assert "row 1 of standard input: column 'zip' holds 'x'" in bad.stderr


class Once:
    """Something with the Arrow C stream, which can be read once."""

    def __init__(self, table: pa.Table) -> None:
        self._table: pa.Table | None = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        assert self._table is not None, "it was read twice"
        table, self._table = self._table, None
        return table.__arrow_c_stream__(requested_schema)


def test_a_stream_is_read_once() -> None:
    found = holdstrue.check(rows(), "zip -> city", key="id")
    assert holdstrue.check(Once(rows()), "zip -> city", key="id").to_dict() == found.to_dict()
    with holdstrue.Monitor("zip -> city", "id", data=Once(rows())) as monitor:
        assert monitor.rows == {"data": 60}
    assert holdstrue.discover(Once(rows()), "key").ruleset()


def test_changes_come_by_standard_input(tmp_path: Path, people_bytes: bytes) -> None:
    state = tmp_path / "state"
    assert run("init", state, "--rule", "zip -> city", "--key", "id", "--data", "-", sent=people_bytes).exit_code == 0
    more = run_json("apply", state, "-", sent=b"op,id,zip,city\ndelete,2,,\n")
    assert more["counts"]["zip -> city"] == {"added": 0, "removed": 2, "open": 0}
    same = run_json("apply", state, "-", "--snapshot", sent=people_bytes, code=1)
    assert same["changed"] == {"insert": 1, "update": 0, "delete": 0}


@pytest.fixture
def people_bytes() -> bytes:
    return PEOPLE.encode()


def test_the_web_says_what_is_wrong(tools: Tools) -> None:
    def cut(handler: Any) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "1000")
        handler.end_headers()
        handler.wfile.write(b"id\n1\n")

    def cut_chunked(handler: Any) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"5\r\nid\n1\n\r\n40\r\nab")

    def nonsense(handler: Any) -> None:
        handler.wfile.write(b"I am no web server\r\n\r\n")

    plain = b"id\n1\n"
    address = tools.web(
        {
            "/t.csv": (200, {}, plain),
            "/error.csv": (500, {}, b"oh"),
            "/secret.csv?sig=geheim": (403, {}, b"no"),
            "/cut.csv": cut,
            "/chunked.csv": cut_chunked,
            "/nonsense.csv": nonsense,
            "/loop.csv": (302, {"Location": "/loop.csv"}, b""),
            "/to-file.csv": (302, {"Location": "file:///etc/passwd"}, b""),
            "/unknown": (200, {"Content-Type": "text/plain"}, plain),
            "/odd.csv": (200, {"Content-Encoding": "br"}, plain),
            "/packed.csv": (200, {"Content-Encoding": "gzip"}, gzip.compress(plain)),
            "/named": (200, {"Content-Disposition": 'attachment; filename="t.csv"'}, plain),
            "/none.csv": (204, {}, b""),
            "/empty.parquet": (200, {}, b""),
        }
    )
    for good in ("/t.csv", "/packed.csv", "/named"):
        assert read_table(address + good).num_rows == 1
    assert read_table(address + "/unknown", format="csv").num_rows == 1
    assert read_table(Path(address + "/t.csv")).num_rows == 1
    fails(f"{address}/missing.csv", "answers 404", "check the address")
    fails(f"{address}/error.csv", "answers 500", "try again later")
    fails(f"{address}/secret.csv?sig=geheim", "/secret.csv?... answers 403", "signature")
    fails(f"{address}/cut.csv", "was cut short: 5 of 1,000 bytes", "try again")
    fails(f"{address}/chunked.csv", "was cut short", "try again")
    fails(f"{address}/nonsense.csv", "does not answer as a web server does")
    fails(f"{address}/loop.csv", "leads from redirect to redirect")
    fails(f"{address}/to-file.csv", "leads to what is not an address of the web")
    fails(f"{address}/unknown", "neither its name nor its content type (text/plain)", "--input-format")
    fails(f"{address}/odd.csv", "is sent as br")
    fails(f"{address}/none.csv", "answers 204")
    fails(f"{address}/empty.parquet", "/empty.parquet is damaged or not Parquet: it is empty")
    fails("http://127.0.0.1:1/t.csv", "cannot be reached")
    fails("http://", "is not an address")
    fails("http://127.0.0.1:99999/t.csv", "is not an address")
    fails(f"{address}/a b.csv", "is not an address", "%20")
    fails([f"{address}/t.csv", f"{address}/empty.parquet"], "files of several formats")


def test_a_password_of_the_web_is_sent_and_not_shown(tools: Tools) -> None:
    seen: list[str | None] = []

    def answer(handler: Any) -> None:
        seen.append(handler.headers.get("Authorization"))
        handler.send_response(401 if len(seen) > 1 else 200)
        handler.send_header("Content-Length", "5")
        handler.end_headers()
        handler.wfile.write(b"id\n1\n")

    url = tools.web({"/t.csv": answer}).replace("//", "//me:geheim@") + "/t.csv"
    assert read_table(url).num_rows == 1
    assert seen == ["Basic bWU6Z2VoZWlt"]
    fails(url, "answers 401")


def test_copies_are_gone_afterwards(tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "copies"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    url = tools.web({"/t.parquet": (200, {}, parquet_bytes(rows()))}) + "/t.parquet"
    assert holdstrue.check(url, "key(id)").total == 0
    fails(url + "x", "answers 404")
    assert list(folder.iterdir()) == []


def test_objects_say_what_is_wrong(tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    bucket = tools.bucket(
        {"d/orders.csv": b"id\n1\n", "d/notes.md": b"x", "deep/a/b.csv": b"id\n1\n", "lake/_delta_log/0.json": b"{}",
         "lake/part-0.parquet": b"x", "mixed/a.csv": b"id\n1\n", "mixed/b.parquet": b"x"}
    )  # fmt: skip
    assert read_table(f"{bucket}/d").num_rows == 1
    assert read_table(f"{bucket}/d/notes.md", format="csv").column_names == ["x"]
    fails(f"{bucket}/d/order.csv", "there is nothing at", "did you mean 'orders.csv'")
    fails(f"{bucket}/deep", "no data files directly in it", f"{bucket}/deep/**/*.parquet")
    assert read_table(f"{bucket}/deep/**/*.csv").num_rows == 1
    fails(f"{bucket}/deep/*.csv", "no object matches")
    fails(f"{bucket}/lake/*.parquet", "lies inside or around a table")
    fails(f"{bucket}/lake", "cannot be read")
    fails(f"{bucket}/mixed", "files of several formats")
    fails(f"{bucket}/d/notes.md", "cannot tell the format of", "--input-format")
    fails("s3://key:geheim@b/t.csv", "URL of the data holds credentials")
    fails(f"{bucket}/t.csv?X-Amz-Signature=geheim", "holds a query")
    fails("s3://there-is-no-such-bucket/t.csv", "there is no bucket 'there-is-no-such-bucket'")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    fails(f"{bucket}/t.csv", "the store at http://127.0.0.1:9 cannot be reached")


@pytest.fixture
def sqlite(tmp_path: Path) -> Any:
    """Runs statements in a file and gives its name."""
    path = tmp_path / "t.db"

    def make(statements: str) -> str:
        connection = sqlite3.connect(path)
        connection.executescript(statements)
        connection.close()
        return f"sqlite:{path}"

    return make


def test_cells_of_sqlite_have_types_of_their_own(sqlite: Any) -> None:
    url = sqlite(
        "create table t (id integer, mixed, wide, day date, moment datetime, flag boolean, bad text, any any);"
        "insert into t values (1, 5, 9007199254740993, '2024-01-01', '2024-01-01 10:00:00', 1, 'a', 1);"
        "insert into t values (2, 'five', 1.5, 'soon', '2024-01-01T10:00:00Z', 2, cast(x'ff' as text), 2.5);"
        "insert into t values (3, x'00', null, null, null, null, null, null);"
    )
    table = f"{url}?table=t"
    assert read_table(table, columns=["id", "any"]).to_pydict() == {"id": [1, 2, 3], "any": [1.0, 2.5, None]}
    fails(table, "row 2 of table t of", columns=["mixed"])
    fails(table, "column 'mixed' holds 'five' (text), and 5 (integer) in row 1", 'CAST("mixed"', columns=["mixed"])
    fails(table, "row 1 of table t", columns=["wide"])
    fails(table, "holds 9007199254740993, which no float is, and 1.5 in row 2", columns=["wide"])
    fails(table, "row 2 of table t", "?query=", columns=["day"])
    fails(table, "column 'day' is declared DATE and holds 'soon'", columns=["day"])
    fails(table, "column 'moment' is declared DATETIME and holds '2024-01-01T10:00:00Z'", columns=["moment"])
    fails(table, "column 'flag' is declared BOOLEAN and holds 2", columns=["flag"])
    fails(table, "row 2 of table t", columns=["bad"])
    fails(table, "holds text that is not UTF-8", "AS BLOB", columns=["bad"])
    # only what rules read matters, in a check and in a monitor
    assert holdstrue.check(table, "not(t.any > 2)").total == 1
    with holdstrue.Monitor("not(t.any > 2)", "id", data=table) as monitor:
        assert monitor.rows == {"data": 3}
    query = url + '?query=SELECT CAST(mixed AS TEXT) AS mixed, CAST(bad AS BLOB) AS "b""c" FROM t WHERE id < 3'
    assert read_table(query).to_pydict() == {"mixed": ["5", "five"], 'b"c': [b"a", b"\xff"]}


def test_databases_say_what_is_there(sqlite: Any, tmp_path: Path) -> None:
    import duckdb

    url = sqlite('create table orders (id); create table "odd ""name" (id); create view customers as select 1 as id;')
    assert read_table(url + '?table="odd ""name"').num_rows == 0
    fails(url, "which table of", "orders")
    fails(url + "?table=order", "has no table 'order'", "there are: orders")
    fails(url + "?table=customer", "has no table 'customer'", "there are: customers")
    fails(url + "?table=a..b", "is not the name of a table")
    fails(url + "?tabel=orders", "has a setting 'tabel'", "?table=NAME")
    fails(url + "?query=", "is empty")
    fails(url + "?query=SELEKT 1 FROM x", "cannot be read")
    fails(url + "?query=SELECT 1 AS a, 2 AS a", "two columns named 'a'")
    fails(url + "?query=SELECT * FROM orders; DROP TABLE orders", "cannot be read")
    fails(f"sqlite:{tmp_path}/tt.db?table=t", "does not exist", "did you mean")
    fails(f"sqlite:{tmp_path}?table=t", "is a directory")
    fails("sqlite:?table=t", "names no file")
    write(tmp_path / "no.db", "this is no database, only text that is long enough" * 30)
    fails(f"sqlite:{tmp_path}/no.db?table=t", "cannot be read: file is not a database")
    fails(f"duckdb:{tmp_path}/no.db?table=t", "cannot be opened by DuckDB")
    fails(url.replace("sqlite", "duckdb") + "?table=orders", "is a SQLite file", "sqlite:")
    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create schema s; create table s.orders as select 1 as id; create table other as select 1 a")
    fails(f"duckdb:{path}?table=orders", "has no table 'orders'", "there are: s.orders, other")
    fails(f"duckdb:{path}", "which table of", "other, s.orders")
    fails(f"duckdb:{path}?query=SELECT nix FROM other", "cannot be read")
    fails(f"duckdb:{path}?query=INSERT INTO other VALUES (2)", "cannot be read")
    assert read_table(f"duckdb://{path}?query=SELECT%20a%2B1%20AS%20b%20FROM%20other").to_pydict() == {"b": [2]}
    fails([f"duckdb:{path}?table=other", str(path)], "is a table among 2 sources")


def test_numbers_of_duckdb_are_exact(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "create type mood as enum ('a', 'b'); create table t (id int, h hugeint, d decimal(30, 3), u uuid, m mood, "
            "z timetz, b bit, l int[])"
        )
        connection.execute(
            "insert into t values (1, 170141183460469231731687303715884105727, 12345678901234567.125, "
            "'00000000-0000-0000-0000-000000000001', 'b', '10:00:00+02', '101', [1])"
        )
    table = read_table(f"duckdb:{path}?table=t", columns=["id", "h", "d", "u", "m", "z", "b"])
    assert {name: str(values[0]) for name, values in table.to_pydict().items()} == {
        "id": "1", "h": str(2**127 - 1), "d": "12345678901234567.125", "u": "00000000-0000-0000-0000-000000000001",
        "m": "b", "z": "10:00:00+02", "b": "101",
    }  # fmt: skip
    # the file is let go of, so that it can be written to
    with duckdb.connect(str(path)) as connection:
        connection.execute("insert into t(id) values (2)")


def test_types_of_postgresql(tools: Tools) -> None:
    address = tools.postgres(rows())
    server: Any = tools._request.getfixturevalue("postgres")
    server.sql(
        "drop table if exists types; drop type if exists mood; create type mood as enum ('a', 'b'); "
        "create table types (id int, n numeric, n2 numeric(40, 2), big numeric(5, -2), m money, u uuid, e mood, "
        "j jsonb, tz timestamptz, ti time, ttz timetz, i inet, ar int[], iv interval, b bytea, c char(3), bit bit(3), "
        "bad numeric);"
        "insert into types values (1, 12345678901234567890.123, 1.5, 12300, '12.34', "
        "'00000000-0000-0000-0000-000000000001', 'b', '{\"a\": 1}', '2024-01-01 00:00:00+02', '10:00', '10:00+02', "
        "'10.0.0.1', '{1}', '1 day', 'x', 'ab', B'101', 'NaN'); insert into types(id) values (2);"
    )
    url = f"{address}?table=types"
    names = [name for name in schema_of(url).names if name not in ("ar", "iv", "bad")]
    table = read_table(url, columns=names)
    assert {name: str(values[0]) for name, values in table.to_pydict().items()} == {
        "id": "1", "n": "12345678901234567890.123", "n2": "1.50", "big": "12300", "m": "12.34",
        "u": "00000000-0000-0000-0000-000000000001", "e": "b", "j": '{"a": 1}', "tz": "2023-12-31 22:00:00+00:00",
        "ti": "10:00:00", "ttz": "10:00:00+02", "i": "10.0.0.1/32", "b": "b'x'", "c": "ab ", "bit": "101",
    }  # fmt: skip
    assert pa.types.is_decimal(schema_of(url).field("n").type)
    assert set(read_table(url, columns=names).slice(1).to_pylist()[0].values()) == {2, None}
    fails(url, "row 1 of table types of", "?query=", columns=["bad"])
    fails(url, "column 'bad' holds nan", columns=["bad"])
    assert holdstrue.check(url, "not(t.n > 5)").total == 1


def test_postgresql_says_what_is_wrong(tools: Tools) -> None:
    address = tools.postgres(rows())
    secret = address.replace("holdstrue@", "holdstrue:geh%65im@")
    fails(secret, "which table of postgresql://holdstrue:***@127.0.0.1", "shop.My Table")
    fails(secret + "?table=shop.MyTable", "has no table 'shop.MyTable'", "there are: shop.My Table")
    fails(secret + "?table=ship.t", "has no table 'ship.t'")
    fails(secret + "?query=SELECT nix FROM sent", 'column "nix" does not exist')
    fails(secret + "?query=SELECT 1 AS a, 2 AS a", "two columns named 'a'")
    fails(secret + '?query=DELETE FROM shop."My Table" RETURNING 1', "cannot read")
    fails(secret + '?query=WITH x AS (DELETE FROM shop."My Table" RETURNING 1) SELECT 1', "cannot read")
    fails(secret + '?query=SELECT 1 / (id - 30) AS a FROM shop."My Table"', "division by zero")
    fails(secret + "?sslmode=nonsense&table=t", "cannot connect to", "PGPASSWORD")
    fails(secret.replace("holdstrue:", "nobody:") + "?table=t", 'role "nobody" does not exist')
    fails("postgresql://me:geheim@127.0.0.1:1/db?table=t", "cannot connect to postgresql://me:***@127.0.0.1:1/db")
    fails("postgresql://me:geheim@127.0.0.1:x/db?table=t", "cannot connect to")
    result = run("check", secret + "?table=nix", "--rule", "key(id)")
    assert result.exit_code == 2
    assert "geheim" not in result.output
    assert "geh%65im" not in result.output


def test_adbc_says_what_is_wrong(tmp_path: Path) -> None:
    import duckdb

    path = tmp_path / "d.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("create table orders as select 1 as id")
    url = f"adbc:duckdb?uri={path}"
    assert read_table(url + "&table=orders").to_pydict() == {"id": [1]}
    fails(url, "which table of adbc:duckdb is meant", "orders")
    fails(url + "&table=order", "cannot read table order of adbc:duckdb")
    fails(url + "&query=SELECT nix FROM orders", "cannot read a query of adbc:duckdb")
    fails(url + "&mode=x&table=orders", "has a setting 'mode'", "ADBC_DUCKDB_URI")
    fails("adbc:nosuch?table=t", "adbc_driver_nosuch, which is not installed", "pip install adbc-driver-nosuch")
    fails("adbc:os.path?table=t", "is not the name of an ADBC driver")
    fails("adbc:postgresql?uri=postgresql://me:geheim@127.0.0.1:1/db&table=t", "cannot connect to")


def test_an_iceberg_catalog_says_what_is_there(tools: Tools) -> None:
    from ways import iceberg_catalog

    source = iceberg_catalog(tools, rows())
    fails(source.replace("n.t", "n.tt"), "has no table 'n.tt'", "there are: n.t")
    fails(source.replace("n.t", "m.t"), "has no table 'm.t'", "there are: n.t")
    fails("iceberg:t", "names no table of a catalog")
    fails("iceberg:elsewhere.n.t", "the catalog 'elsewhere' of Iceberg does not answer", "PYICEBERG_CATALOG__ELSEWHERE")


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("postgresql://u:p@ss/w@h/db?table=t", "postgresql://u:***@h/db?table=t"),
        ("postgresql://h/db?user=u&password=geheim&table=t", "postgresql://h/db?user=u&password=***&table=t"),
        ("https://token@h/t.csv", "https://***@h/t.csv"),
        ("https://h/t.csv?a=b", "https://h/t.csv?..."),
        ("duckdb:t.db?table=t", "duckdb:t.db?table=t"),
        ("adbc:x?uri=me:geheim@h&table=t", "adbc:x?uri=***&table=t"),
        ("a?b=c.csv", "a?b=c.csv"),
    ],
)
def test_what_is_shown_of_a_url(url: str, seen: str) -> None:
    assert shown(url) == seen


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    file = tmp_path / "t.csv"
    file.write_bytes(csv_bytes(rows()))
    file.chmod(stat.S_IWUSR)
    fails(file, "cannot open")


@pytest.mark.parametrize(
    "source",
    [
        "postgresql://me:geheim#1@127.0.0.1/db?table=t",
        "postgresql://me:x@geheim@127.0.0.1/db?table=t",
        "postgresql:me:geheim@127.0.0.1/db?table=t",
        "host=127.0.0.1 password=geheim dbname=db",
    ],
)
def test_a_password_that_is_written_wrongly_is_not_repeated(source: str) -> None:
    with pytest.raises(DataError) as raised:
        holdstrue.check(source, "key(id)")
    assert "geheim" not in str(raised.value)
