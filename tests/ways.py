"""One table of many types and NULLs, and the ways in by which tests bring it: each must give the same report."""

from __future__ import annotations

import datetime as dt
import gzip
import http.server
import io
import os
import random
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from database import Postgres
from holdstrue.sources.lakehouse import file_io
from objects import Moto, set_environment

RULES = """
key: id
rules:
  - {name: ids, rule: key(id)}
  - {name: cities, rule: 'zip -> city'}
  - {name: pay, rule: 'not(t.zip = s.zip and t.salary > s.salary and t.rate < s.rate)'}
  - {name: ages, rule: 'not(t.hired < t.born)'}
  - {name: seen, rule: 'not(t.zip = s.zip and t.seen > s.seen and t.salary < s.salary)'}
  - {name: active, rule: '[active=true, zip] -> [city]'}
  - {name: named, rule: not null(city)}
  - {name: few, rule: not(t.salary > 900.05)}
"""

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "zip": pa.string(),
        "city": pa.string(),
        "salary": pa.decimal128(12, 2),
        "rate": pa.float64(),
        "born": pa.date32(),
        "hired": pa.date32(),
        "seen": pa.timestamp("us"),
        "active": pa.bool_(),
    }
)

DDL = """(id bigint, zip text, city text, salary {decimal}, rate double precision, born date, hired date,
seen timestamp, active boolean)"""


def rows(count: int = 60, seed: int = 7) -> pa.Table:
    """Drawn rows, of which some break each rule; every column but the key has NULLs."""
    draw = random.Random(seed)
    made: list[dict[str, Any]] = []
    for number in range(1, count + 1):
        born = dt.date(1990, 1, 1) + dt.timedelta(days=draw.randrange(4000))
        row = {
            "id": number,
            "zip": f"0{draw.randrange(6)}",
            "city": draw.choice(["Köln", 'the "B"\nof it, too', "Ulm", "Bonn"]),
            "salary": Decimal(draw.randrange(100_000)) / 100,
            "rate": draw.choice([0.1, 0.25, 0.5, 1e-3]),
            "born": born,
            "hired": born + dt.timedelta(days=draw.randrange(-50, 9000)),
            "seen": dt.datetime(2024, 1, 1, microsecond=draw.randrange(10**6)) + dt.timedelta(hours=number % 17),
            "active": draw.random() < 0.5,
        }
        made.append({name: None if name != "id" and draw.random() < 0.08 else value for name, value in row.items()})
    return pa.Table.from_pylist(made, schema=SCHEMA)


def csv_bytes(table: pa.Table) -> bytes:
    """As CSV, in which empty cells are NULL."""
    out = io.BytesIO()
    pyarrow.csv.write_csv(table, out, pyarrow.csv.WriteOptions(quoting_style="needed"))
    return out.getvalue()


def parquet_bytes(table: pa.Table) -> bytes:
    """As Parquet."""
    out = io.BytesIO()
    pq.write_table(table, out)
    return out.getvalue()


class Answers(http.server.BaseHTTPRequestHandler):
    """Answers by path: `(status, headers, body)`, or what handles the request itself."""

    answers: Mapping[str, Any] = {}

    def do_GET(self) -> None:
        found = self.answers.get(self.path, (404, {}, b"nothing here"))
        if callable(found):
            found(self)
            return
        status, headers, body = found
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing."""


@contextmanager
def web(answers: Mapping[str, Any]) -> Iterator[str]:
    """A web server on loopback; its address."""
    handler = type("Answering", (Answers,), {"answers": answers})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


class Tools:
    """What the ways need beside the table: a folder, servers, and things to end after the test."""

    def __init__(self, request: pytest.FixtureRequest, folder: Path, ends: ExitStack) -> None:
        self._request = request
        self.folder = folder
        self._ends = ends

    @property
    def patch(self) -> pytest.MonkeyPatch:
        """Of the test."""
        found: pytest.MonkeyPatch = self._request.getfixturevalue("monkeypatch")
        return found

    def stdin(self, data: bytes) -> str:
        """Let standard input hold data."""
        self.patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(data), "utf-8"))
        return "-"

    def web(self, answers: Mapping[str, Any]) -> str:
        """The address of a web server."""
        self.patch.setenv("NO_PROXY", "127.0.0.1")
        return self._ends.enter_context(web(answers))

    def bucket(self, objects: Mapping[str, bytes] | None = None) -> str:
        """The URL of a fresh bucket with some objects."""
        moto: Moto = self._request.getfixturevalue("moto")
        set_environment(self.patch, moto.url, self.folder)
        name = moto.make_bucket()
        for key, data in (objects or {}).items():
            status, body = moto.request("PUT", f"/{name}/{quote(key)}", data)
            assert status == 200, body
        return f"s3://{name}"

    def postgres(self, table: pa.Table) -> str:
        """The address of a database that holds the table as shop."My Table"."""
        server: Postgres = self._request.getfixturevalue("postgres")
        server.sql("drop schema if exists shop cascade; create schema shop; "
                   f'create table shop."My Table" {DDL.format(decimal="numeric(12, 2)")}')  # fmt: skip
        import adbc_driver_postgresql.dbapi as adbc

        # decimals go through text: the driver copies them in from Arrow as such
        sent = table.set_column(3, "salary", table.column("salary").cast(pa.string()))
        with adbc.connect(server.address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("sent", sent, mode="replace")
            columns = ", ".join(f"{f.name}::numeric" if f.name == "salary" else f.name for f in table.schema)
            cursor.execute(f'insert into shop."My Table" select {columns} from sent')
            connection.commit()
        return server.address

    def delta(self, place: str, table: pa.Table, options: dict[str, str] | None = None) -> str:
        """A table of Delta Lake that once had another row."""
        from deltalake import DeltaTable, write_deltalake

        write_deltalake(place, pa.concat_tables([table, _other(table)]), storage_options=options)
        DeltaTable(place, storage_options=options).delete("id = -1")
        return place

    def iceberg(self, warehouse: str, table: pa.Table, settings: Mapping[str, str] | None = None) -> Any:
        """A table of Iceberg that once had another row."""
        from pyiceberg.catalog.sql import SqlCatalog

        uri = f"sqlite:///{self.folder / 'catalog.db'}"
        catalog = SqlCatalog("own", uri=uri, warehouse=warehouse, **(settings or {}))
        self._ends.callback(catalog.close)
        catalog.create_namespace("n")
        made = catalog.create_table("n.t", schema=table.schema)
        made.append(pa.concat_tables([table, _other(table)]))
        made.delete("id = -1")
        return made


def _other(table: pa.Table) -> pa.Table:
    return table.slice(0, 1).set_column(0, "id", pa.array([-1], pa.int64()))


Make: TypeAlias = Callable[[Tools, pa.Table], Any]
WAYS_IN: dict[str, Make] = {}


def way(make: Make) -> Make:
    """A way in, called as its function is."""
    WAYS_IN[make.__name__] = make
    return make


@way
def file(tools: Tools, table: pa.Table) -> str:
    path = tools.folder / "t.csv"
    path.write_bytes(csv_bytes(table))
    return str(path)


@way
def file_url(tools: Tools, table: pa.Table) -> str:
    path = tools.folder / "t.parquet"
    path.write_bytes(parquet_bytes(table))
    return path.as_uri()


@way
def standard_input(tools: Tools, table: pa.Table) -> str:
    return tools.stdin(csv_bytes(table))


@way
def standard_input_parquet(tools: Tools, table: pa.Table) -> str:
    return tools.stdin(parquet_bytes(table))


@way
def standard_input_packed(tools: Tools, table: pa.Table) -> str:
    return tools.stdin(gzip.compress(csv_bytes(table)))


@way
def web_parquet(tools: Tools, table: pa.Table) -> str:
    return tools.web({"/t.parquet": (200, {}, parquet_bytes(table))}) + "/t.parquet"


@way
def web_csv_by_type(tools: Tools, table: pa.Table) -> str:
    return tools.web({"/get?id=1": (200, {"Content-Type": "text/csv; charset=utf-8"}, csv_bytes(table))}) + "/get?id=1"


@way
def web_packed_after_redirect(tools: Tools, table: pa.Table) -> str:
    moved = (302, {"Location": "/deep/t.csv.gz"}, b"")
    return tools.web({"/latest": moved, "/deep/t.csv.gz": (200, {}, gzip.compress(csv_bytes(table)))}) + "/latest"


@way
def s3_object(tools: Tools, table: pa.Table) -> str:
    return tools.bucket({"a b=1/t.parquet": parquet_bytes(table)}) + "/a b=1/t.parquet"


@way
def s3_folder(tools: Tools, table: pa.Table) -> str:
    parts = {"x/1.parquet": parquet_bytes(table.slice(0, 20)), "x/2.parquet": parquet_bytes(table.slice(20))}
    return tools.bucket(parts | {"x/_done": b"", "x/deeper/3.parquet": b"not read"}) + "/x"


@way
def s3_pattern(tools: Tools, table: pa.Table) -> str:
    parts = {"d/1/a.csv": csv_bytes(table.slice(0, 20)), "d/2/b.csv": csv_bytes(table.slice(20))}
    return tools.bucket(parts | {"d/c.csv": b"not read", "d/1/x/y.csv": b"not read"}) + "/d/*/*.csv"


@way
def duckdb_table(tools: Tools, table: pa.Table) -> str:
    import duckdb

    path = tools.folder / "t.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.register("given", table)
        connection.execute('create schema shop; create table shop."My Table" as select * from given')
    return f'duckdb:{path}?table=shop."My Table"'


@way
def duckdb_query(tools: Tools, table: pa.Table) -> str:
    return duckdb_table(tools, table).split("?")[0] + '?query=SELECT * FROM shop."My Table" ORDER BY id;'


@way
def sqlite_table(tools: Tools, table: pa.Table) -> str:
    path = tools.folder / "t.sqlite"
    connection = sqlite3.connect(path)
    connection.execute(f"create table t {DDL.format(decimal='numeric')}")
    plain: dict[type, Callable[[Any], Any]] = {Decimal: float, dt.date: str, dt.datetime: str, bool: int}
    cells = [[plain.get(type(cell), lambda same: same)(cell) for cell in row.values()] for row in table.to_pylist()]
    connection.executemany(f"insert into t values ({', '.join('?' * table.num_columns)})", cells)
    connection.commit()
    connection.close()
    return f"sqlite:{path}?table=t"


@way
def postgresql_table(tools: Tools, table: pa.Table) -> str:
    return tools.postgres(table) + "?table=shop.%22My%20Table%22"


@way
def postgresql_query(tools: Tools, table: pa.Table) -> str:
    return tools.postgres(table) + '?connect_timeout=60&query=SELECT * FROM shop."My Table" ORDER BY id'


@way
def adbc_table(tools: Tools, table: pa.Table) -> str:
    duckdb_table(tools, table)
    return f'adbc:duckdb?uri={tools.folder / "t.duckdb"}&table=shop."My Table"'


@way
def adbc_query(tools: Tools, table: pa.Table) -> str:
    duckdb_table(tools, table)
    tools.patch.setenv("ADBC_DUCKDB_URI", str(tools.folder / "t.duckdb"))
    return 'adbc:duckdb?query=SELECT * FROM shop."My Table" ORDER BY id'


@way
def delta_directory(tools: Tools, table: pa.Table) -> str:
    return tools.delta(str(tools.folder / "delta"), table)


@way
def delta_s3(tools: Tools, table: pa.Table) -> str:
    return tools.delta(tools.bucket() + "/tables/delta", table, {"AWS_ALLOW_HTTP": "true"})


@way
def iceberg_directory(tools: Tools, table: pa.Table) -> str:
    return str(tools.iceberg(tools.folder.as_uri(), table).location())


@way
def iceberg_s3(tools: Tools, table: pa.Table) -> str:
    bucket = tools.bucket()
    return str(tools.iceberg(bucket, table, file_io(bucket, os.environ)).location())


@way
def iceberg_catalog(tools: Tools, table: pa.Table) -> str:
    tools.iceberg(tools.folder.as_uri(), table)
    tools.patch.setenv("PYICEBERG_CATALOG__OWN__URI", f"sqlite:///{tools.folder / 'catalog.db'}")
    tools.patch.setenv("PYICEBERG_CATALOG__OWN__WAREHOUSE", tools.folder.as_uri())
    from pyiceberg.utils.config import Config

    # it is read once, when pyiceberg is imported
    tools.patch.setattr("pyiceberg.catalog._ENV_CONFIG", Config())
    return "iceberg:own.n.t"


@way
def pandas_frame(_: Tools, table: pa.Table) -> Any:
    import pandas

    return table.to_pandas(types_mapper=pandas.ArrowDtype)


@way
def polars_frame(_: Tools, table: pa.Table) -> Any:
    import polars

    return polars.from_arrow(table)


@way
def duckdb_relation(_: Tools, table: pa.Table) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(table)


@way
def arrow_stream(_: Tools, table: pa.Table) -> Any:
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))


@pytest.fixture
def tools(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tools]:
    """For ways in; what they started is ended after the test."""
    with ExitStack() as ends:
        yield Tools(request, tmp_path, ends)
