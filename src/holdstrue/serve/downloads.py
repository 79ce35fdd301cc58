"""Violations as files: CSV that no spreadsheet takes for formulas, Parquet, JSON lines and JSON."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import pyarrow as pa

from holdstrue.detect.delta import RuleResult, Violation, plain
from holdstrue.report.records import Records, csv_parts, jsonl_parts
from holdstrue.report.typeset import json_text
from holdstrue.serve.watched import OpenVersion

MOST = 1_000_000
"""Violations of one download: 40 MB of CSV. The page says so where there are more."""
GROUP = 50_000
"""Violations of a row group of Parquet. Chosen, not tuned."""
PIECE = 1 << 18

Written = Iterator[bytes]


def key_type(opened: OpenVersion, results: Iterable[RuleResult]) -> pa.DataType:
    """What the keys of some rules' rows are in Parquet: integers where all are of one such type, else text."""
    facts = opened.facts
    tables = {result.rule.own_table or facts.main for result in results}
    keys = [(facts.schemas[table], facts.keys[table]) for table in tables if table in facts.schemas]
    types = {schema.field(key[0]).type if len(key) == 1 else pa.string() for schema, key in keys}
    [only] = types if len(types) == 1 else [pa.string()]
    return only if pa.types.is_integer(only) else pa.string()


def _csv(found: Iterable[Violation], _: pa.DataType) -> Written:
    rows = (violation.to_dict() for violation in found)
    return (part.encode() for part in csv_parts(Records(("rule", "t", "s"), rows)))


def _jsonl(found: Iterable[Violation], _: pa.DataType) -> Written:
    rows = (violation.to_dict() for violation in found)
    return (part.encode() for part in jsonl_parts(Records(("rule", "t", "s"), rows)))


def _json(found: Iterable[Violation], _: pa.DataType) -> Written:
    yield b"["
    for at, violation in enumerate(found):
        yield (",\n" if at else "\n").encode() + json_text(violation.to_dict()).encode()
    yield b"\n]\n"


def _parquet(found: Iterable[Violation], key: pa.DataType) -> Written:
    import pyarrow.parquet as pq

    rest = iter(found)
    schema = pa.schema({"rule": pa.string(), "t": key, "s": key})
    with tempfile.TemporaryFile() as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            while part := list(islice(rest, GROUP)):
                writer.write_table(_table(part, schema))
        file.seek(0)
        while piece := file.read(PIECE):
            yield piece


def _table(part: list[Violation], schema: pa.Schema) -> pa.Table:
    def column(name: str) -> pa.Array:
        values = [getattr(one, name) for one in part]
        if pa.types.is_integer(schema.field(name).type):
            return pa.array(values, schema.field(name).type)
        return pa.array([None if value is None else _text(value) for value in values], pa.string())

    return pa.table([pa.array([one.rule for one in part]), column("t"), column("s")], schema=schema)


def _text(key: object) -> str:
    told = plain(key)
    return told if isinstance(told, str) else json_text(told)


FORMS: Mapping[str, tuple[str, Callable[[Iterable[Violation], pa.DataType], Written]]] = {
    "csv": ("text/csv; charset=utf-8", _csv),
    "parquet": ("application/vnd.apache.parquet", _parquet),
    "jsonl": ("application/x-ndjson", _jsonl),
    "json": ("application/json", _json),
}
"""By ending: the media type, and what writes it piece by piece."""
