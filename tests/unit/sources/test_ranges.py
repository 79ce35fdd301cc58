"""Of Parquet in object stores and on the web only the footer and the columns that rules name are fetched."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import holdstrue
from fault_proxy import FaultProxy
from holdstrue.errors import DataError
from holdstrue.sources import ranges
from holdstrue.sources.passing import may_pass
from holdstrue.sources.read import read_table
from objects import Moto
from ways import web

RULES = ["zip -> city"]


def wide(rows: int = 4000) -> pa.Table:
    """Two narrow columns among wide ones that no rule names."""
    random = np.random.default_rng(7)
    ballast = {f"w{i}": pa.array([random.bytes(40).hex() for _ in range(rows)]) for i in range(8)}
    zips = random.integers(0, 50, rows)
    return pa.table({"id": np.arange(rows), **ballast, "zip": zips, "city": zips // 2 + (np.arange(rows) == 17)})


@pytest.fixture(scope="module")
def table() -> pa.Table:
    """The rows."""
    return wide()


@pytest.fixture(scope="module")
def content(table: pa.Table) -> bytes:
    """They as Parquet of several row groups."""
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=1000, compression="none")
    return out.getvalue()


def put(moto: Moto, url: str, body: bytes) -> None:
    assert moto.request("PUT", "/" + url.removeprefix("s3://"), body)[0] == 200


def told(report: Any) -> Any:
    return report.to_dict()["rules"], report.to_dict()["violations"]


@pytest.fixture
def far(moto: Moto, s3: str, content: bytes) -> str:
    """The file in an object store."""
    url = "/".join(s3.split("/")[:3]) + "/data/t.parquet"
    put(moto, url, content)
    return url


@pytest.mark.parametrize("named", ["t.parquet", "", "*.parquet"])
def test_a_check_fetches_what_rules_name(
    far: str, proxy: FaultProxy, content: bytes, table: pa.Table, named: str
) -> None:
    proxy.plan()
    found = holdstrue.check(far.removesuffix("t.parquet") + named, RULES)
    assert told(found) == told(holdstrue.check(table, RULES))
    served = sum(request.sent for request in proxy.requests)
    assert len(content) > 2 << 20
    assert served < len(content) / 10


def test_a_monitor_reads_by_ranges_too(far: str, proxy: FaultProxy, content: bytes, table: pa.Table) -> None:
    proxy.plan()
    with holdstrue.Monitor(RULES, "id", data=far) as monitor:
        assert sum(request.sent for request in proxy.requests) < len(content) / 10
        with holdstrue.Monitor(RULES, "id", data=table) as near:
            assert monitor.counts() == near.counts()
        assert monitor.apply(far, snapshot=True).changed == {"insert": 0, "update": 0, "delete": 0}
        assert sum(request.sent for request in proxy.requests) < len(content) / 5


def test_all_columns_come_in_pieces(
    far: str, proxy: FaultProxy, table: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many requests at once as one asks for; what is read is the same."""
    monkeypatch.setattr(ranges, "PIECE", 100_000)
    proxy.plan()
    assert read_table(far).equals(table)
    assert len(proxy.requests) > 20


def test_small_objects_are_fetched_whole(far: str, proxy: FaultProxy, moto: Moto, table: pa.Table) -> None:
    out = io.BytesIO()
    pq.write_table(table.slice(0, 100), out)
    put(moto, far, out.getvalue())
    proxy.plan()
    assert read_table(far).num_rows == 100
    assert len(proxy.requests) == 2  # how large it is, and all of it


def test_an_object_that_is_replaced_meanwhile(far: str, moto: Moto, content: bytes) -> None:
    from holdstrue.sources.read import TableSource, schema_of

    source = TableSource.of(far)
    assert "zip" in schema_of(source).names
    put(moto, far, content[:-1] + b"2")
    with pytest.raises(DataError, match="was replaced while it was read") as caught:
        read_table(source, columns=["w3"])
    assert may_pass(caught.value)
    assert moto.request("DELETE", "/" + far.removeprefix("s3://"))[0] == 204
    with pytest.raises(DataError, match="was replaced while it was read"):
        read_table(source, columns=["w4"])


def test_an_object_that_is_not_parquet(far: str, moto: Moto, content: bytes) -> None:
    put(moto, far, b"x" * len(content))
    with pytest.raises(DataError, match="is damaged or not Parquet"):
        holdstrue.check(far, RULES)


class Server:
    """Answers ranges of what it holds, and counts."""

    def __init__(self, content: bytes, *, ranges: bool = True) -> None:
        self.content, self.ranges, self.sent, self.tag = content, ranges, 0, "one"

    def __call__(self, handler: Any) -> None:
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", handler.headers.get("Range") or "")
        body, head = self.content, {"ETag": self.tag}
        if asked is not None and self.ranges:
            start = int(asked[1]) if asked[1] else max(0, len(body) - int(asked[2]))
            stop = int(asked[2]) + 1 if asked[1] and asked[2] else len(body)
            head["Content-Range"] = f"bytes {start}-{stop - 1}/{len(body)}"
            body = body[start:stop]
        handler.send_response(206 if "Content-Range" in head else 200)
        for name, value in {**head, "Content-Length": str(len(body))}.items():
            handler.send_header(name, value)
        handler.end_headers()
        handler.wfile.write(body)
        self.sent += len(body)


def test_the_web_is_asked_for_ranges(content: bytes, table: pa.Table) -> None:
    expected = told(holdstrue.check(table, RULES))
    server, plain = Server(content), Server(content, ranges=False)
    small = io.BytesIO()
    pq.write_table(table.slice(0, 30), small)
    with web({"/t.parquet": server, "/plain.parquet": plain, "/small.parquet": Server(small.getvalue())}) as address:
        assert told(holdstrue.check(f"{address}/t.parquet", RULES)) == expected
        assert server.sent < len(content) / 10
        assert told(holdstrue.check(f"{address}/plain.parquet", RULES)) == expected
        assert plain.sent == len(content)
        assert read_table(f"{address}/small.parquet").num_rows == 30
        from holdstrue.sources.read import TableSource

        source = TableSource.of(f"{address}/t.parquet")
        server.tag = "two"
        with pytest.raises(DataError, match="was replaced while it was read"):
            read_table(source, columns=["w3"])


def test_a_file_is_read_like_any_other(tmp_path: Path) -> None:
    data = bytes(range(256)) * 40
    (tmp_path / "f").write_bytes(data)
    with (tmp_path / "f").open("rb", buffering=0) as near:
        far = ranges.RangeFile(len(data), lambda start, size: data[start : start + size], data[-100:])
        random = np.random.default_rng(3)
        for _ in range(300):
            place, size = int(random.integers(0, len(data) + 50)), int(random.integers(0, 500))
            assert near.seek(place) == far.seek(place)
            assert near.read(size) == far.read(size)
            assert near.tell() == far.tell()
        near.seek(5)
        far.seek(5)
        assert near.readall() == far.readall()
