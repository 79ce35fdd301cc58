"""The airport data: 32 predicates, exactly the 31 published constraints, and what 9,000 further rows do to them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.rules.model import DC, Column

Constraint = frozenset[tuple[str, str, str]]


@pytest.fixture
def airport(shared_data: Path) -> tuple[pa.Table, pa.Table, set[Constraint]]:
    folder = shared_data / "airport"
    original, incremental = (
        csv.read_csv(folder / f"airport_{name}.csv", read_options=csv.ReadOptions(encoding="latin-1"))
        for name in ("original", "incremental")
    )
    operators = {"==": "=", "<>": "!="}
    known = {
        frozenset(
            (left, operators.get(op, op), right)
            for left, op, right in re.findall(r"t0\.(\S+) (==|<>|<=|>=|<|>) t1\.(\S+)", line)
        )
        for line in (folder / "DC_airport_example.txt").read_text().splitlines()
        if line.strip()
    }
    return original, incremental.cast(original.schema), known


def constraint(body: DC) -> Constraint:
    return frozenset((p.left.name, str(p.op), p.right.name) for p in body.predicates if isinstance(p.right, Column))


def test_published_constraints_there_and_back(airport: tuple[pa.Table, pa.Table, set[Constraint]]) -> None:
    original, incremental, known = airport
    core = DenialCore.load(original)
    assert core.space.predicates == 32
    assert {constraint(rule.body) for rule in core.rules()} == known
    assert len(known) == 31
    stages = [core.rules()]
    columns = {name: original[name].to_pylist() + incremental[name].to_pylist() for name in original.column_names}
    for start in (0, 3000, 6000):
        turnover = core.apply(np.zeros(0, dtype=np.int64), incremental.slice(start, 3000))
        stages.append(core.rules())
        assert turnover.died
        for died in turnover.died:
            t, s = died.rows
            assert max(t, s) >= 30_000 + start
            assert isinstance(died.body, DC)
            for left, op, right in constraint(died.body):
                same = columns[left][t] == columns[right][s]
                assert same == (op == "=")
    assert [len(rules) for rules in stages] == [31, 26, 27, 28]
    for start, rules in ((6000, stages[2]), (3000, stages[1]), (0, stages[0])):
        core.apply(np.arange(30_000 + start, 33_000 + start), incremental.slice(0, 0))
        assert core.rules() == rules
