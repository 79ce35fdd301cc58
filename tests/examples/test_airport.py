"""Airports: exactly the denial constraints that hold, and what three batches of later rows do to them."""

from __future__ import annotations

import re
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

import lookalikes
from holdstrue import check, load_rules
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.errors import DataError
from holdstrue.rules import fingerprint, review
from holdstrue.rules.model import DC, Column
from holdstrue.sources.read import read_table
from lookalikes import AIRPORT_CODES, AIRPORT_SCHEMA
from oracle_covers import Evidence, one_way
from oracle_denial import Comparison, Constraint, minimal

OPERATORS = {"==": "=", "<>": "!="}
COMPARISONS: list[Comparison] = [(name, name, name == "elevation_ft(Integer)") for name in AIRPORT_SCHEMA.names] + [
    (left, right, False) for left, right in combinations(AIRPORT_CODES, 2)
]


def known(text: str) -> set[Constraint]:
    """Constraints in IncDC's syntax, one a line."""
    terms = (re.findall(r"t0\.(\S+) (==|<>|<=|>=|<|>) t1\.(\S+)", line) for line in text.splitlines() if line.strip())
    return {frozenset((left, OPERATORS.get(op, op), right) for left, op, right in some) for some in terms}


def constraint(body: DC) -> Constraint:
    return one_way(
        frozenset((p.left.name, str(p.op), p.right.name) for p in body.predicates if isinstance(p.right, Column))
    )


def found(core: DenialCore) -> set[Constraint]:
    bodies = [constraint(rule.body) for rule in core.rules()]
    assert len(set(bodies)) == len(bodies)
    return set(bodies)


def there_and_back(original: pa.Table, batches: list[pa.Table]) -> tuple[list[set[Constraint]], list[set[Constraint]]]:
    """The constraints before and after each batch, and those that died by it; batches leave as they came."""
    core = DenialCore.load(original)
    assert core.space.predicates == 32
    stages, ended = [found(core)], []
    ends = [original.num_rows]
    whole = pa.concat_tables([original, *batches])
    columns = {name: whole[name].to_pylist() for name in whole.column_names}
    for batch in batches:
        turnover = core.apply(np.zeros(0, dtype=np.int64), batch)
        stages.append(found(core))
        for died in turnover.died:
            t, s = died.rows
            assert max(t, s) >= ends[-1]
            assert isinstance(died.body, DC)
            for left, op, right in constraint(died.body):
                same = columns[left][t] == columns[right][s]
                assert same == (op == "=")
        ended.append({constraint(died.body) for died in turnover.died if isinstance(died.body, DC)})
        assert ended[-1] == stages[-2] - stages[-1]
        ends.append(ends[-1] + batch.num_rows)
    for number, (start, end) in reversed(list(enumerate(pairwise(ends)))):
        core.apply(np.arange(start, end), original.slice(0, 0))
        assert found(core) == stages[number]
    return stages, ended


@pytest.fixture(scope="module")
def made() -> tuple[lookalikes.Airport, list[set[Constraint]]]:
    """The tables, and what holds before and after each batch as the oracle says."""
    airport = lookalikes.airport()
    whole = pa.concat_tables([airport.original, *airport.batches])
    evidence = Evidence(whole.to_pylist(), COMPARISONS)
    ends = np.cumsum([airport.original.num_rows, *(batch.num_rows for batch in airport.batches)])
    return airport, [evidence.constraints(int(end)) for end in ends]


def test_as_the_oracle_says_there_and_back(made: tuple[lookalikes.Airport, list[set[Constraint]]]) -> None:
    airport, right = made
    stages, ended = there_and_back(airport.original, airport.batches)
    assert stages == right
    assert all(one in some for one, some in zip(airport.ended, ended, strict=True))


def test_both_oracles_say_the_same() -> None:
    rows = lookalikes.airport().original.slice(0, 60).to_pylist()
    for names in (AIRPORT_CODES, AIRPORT_SCHEMA.names[3:6], ("coordinates(String)", *AIRPORT_SCHEMA.names[2:4])):
        some = [one for one in COMPARISONS if {*one[:2]} <= {*names}]
        assert {one_way(one) for one in minimal(some, rows).values()} == Evidence(rows, some).constraints(len(rows))


def test_typed_headers_and_names_in_latin_1(
    made: tuple[lookalikes.Airport, list[set[Constraint]]], tmp_path: Path
) -> None:
    airport, right = made
    data, listed = tmp_path / "airport.csv", tmp_path / "airport.txt"
    lines = [AIRPORT_SCHEMA.names, *(row.values() for row in airport.original.to_pylist())]
    data.write_text("".join(",".join(map(str, line)) + "\n" for line in lines), encoding="latin-1")
    with pytest.raises(DataError, match="is not utf8 text"):
        read_table(data)
    assert read_table(data, encoding="latin-1").equals(airport.original)
    listed.write_text(lookalikes.in_incdc_syntax(right[0]))
    assert known(listed.read_text()) == right[0]
    rules = load_rules(listed)
    assert len({fingerprint(rule) for rule in rules}) == len(rules) == len(right[0])
    for rule in rules:
        assert rule.source is not None
        assert {n.partition(".")[2] for n, _, _ in rule.source.spans if " " not in n} <= {*AIRPORT_SCHEMA.names}
    # the list is minimal: no constraint in it follows from another
    assert review(rules) == ()
    assert check(data, rules, encoding="latin-1").ok


def test_published_constraints_there_and_back(whole_data: Path) -> None:
    folder = whole_data / "airport"
    original, later = (
        csv.read_csv(folder / f"airport_{name}.csv", read_options=csv.ReadOptions(encoding="latin-1"))
        for name in ("original", "incremental")
    )
    later = later.cast(original.schema)
    stages, _ = there_and_back(original, [later.slice(start, 3000) for start in (0, 3000, 6000)])
    assert stages[0] == known((folder / "DC_airport_example.txt").read_text())
    assert [len(rules) for rules in stages] == [31, 26, 27, 28]
