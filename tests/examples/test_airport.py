"""The airport data: 32 predicates, exactly the 31 published constraints, and what further rows do to them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv

from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.rules.model import DC, Column

Constraint = frozenset[tuple[str, str, str]]
OPERATORS = {"==": "=", "<>": "!="}


def known(text: str) -> set[Constraint]:
    """Constraints in IncDC's syntax, one a line."""
    terms = (re.findall(r"t0\.(\S+) (==|<>|<=|>=|<|>) t1\.(\S+)", line) for line in text.splitlines() if line.strip())
    return {frozenset((left, OPERATORS.get(op, op), right) for left, op, right in some) for some in terms}


def constraint(body: DC) -> Constraint:
    return frozenset((p.left.name, str(p.op), p.right.name) for p in body.predicates if isinstance(p.right, Column))


def there_and_back(original: pa.Table, later: pa.Table, ends: tuple[int, ...], published: set[Constraint]) -> None:
    """The published constraints hold; batches of later rows, up to these numbers, end some, and leave as they came."""
    core = DenialCore.load(original)
    assert core.space.predicates == 32
    assert {constraint(rule.body) for rule in core.rules()} == published
    assert len(published) == 31
    stages = [core.rules()]
    rows, none = original.num_rows, np.zeros(0, dtype=np.int64)
    columns = {name: original[name].to_pylist() + later[name].to_pylist() for name in original.column_names}
    for start, end in pairwise((0, *ends)):
        turnover = core.apply(none, later.slice(start, end - start))
        stages.append(core.rules())
        assert turnover.died
        for died in turnover.died:
            t, s = died.rows
            assert max(t, s) >= rows + start
            assert isinstance(died.body, DC)
            for left, op, right in constraint(died.body):
                same = columns[left][t] == columns[right][s]
                assert same == (op == "=")
    assert [len(rules) for rules in stages] == [31, 26, 27, 28]
    for number, (start, end) in reversed(list(enumerate(pairwise((0, *ends))))):
        core.apply(np.arange(rows + start, rows + end), later.slice(0, 0))
        assert core.rules() == stages[number]


def test_published_constraints_there_and_back(real_data: Path) -> None:
    original, later = (csv.read_csv(real_data / f"{name}.csv.gz") for name in ("airport", "airport_later"))
    published = known((real_data / "airport.txt").read_text())
    there_and_back(original, later.cast(original.schema), (33, 71, 107), published)


@pytest.mark.soak  # 39,000 rows, which the repository does not hold
def test_all_rows(whole_data: Path) -> None:
    folder = whole_data / "airport"
    original, later = (
        csv.read_csv(folder / f"airport_{name}.csv", read_options=csv.ReadOptions(encoding="latin-1"))
        for name in ("original", "incremental")
    )
    published = known((folder / "DC_airport_example.txt").read_text())
    there_and_back(original, later.cast(original.schema), (3000, 6000, 9000), published)
