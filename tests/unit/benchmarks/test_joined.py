"""The joined relation of the fragments benchmark: rows depend on their number alone, all algorithms agree on it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from competitors import split_relation
from holdstrue import check
from workloads import joined


@pytest.mark.parametrize("shape", ["vertical", "horizontal"])
def test_one_answer_however_it_is_asked(shape: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "NOISE", 0.004)
    options = {"shape": shape, "rows": 600, "changes": 90, "cfds": 50, "sites": 3}
    found = {way: split_relation.measured(options | {"way": way})["answer"] for way in ("inc", "bat", "ibat")}
    assert len(found["inc"]) > 10 and found["inc"] == found["bat"] == found["ibat"]
    batch = split_relation.changes(600, 90)
    report = check(split_relation.after(600, batch), joined.cfds(50), key="id", limit=0)
    assert {rule: some[0] for rule, some in found["inc"].items()} == {
        r.rule.name: r.counts.rows for r in report.results if r.counts.rows
    }


def test_rows_depend_on_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "NOISE", 0.05)
    parts = [joined.joined(200, scale=1000), joined.joined(100, start=200, scale=1000)]
    assert joined.joined(300, scale=1000).equals(pa.concat_tables(parts).combine_chunks())


def test_clean_rows_keep_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joined, "NOISE", 0.0)
    rules = [{"name": f"fd{i}", "rule": f"{', '.join(x)} -> {b}"} for i, (x, b) in enumerate(joined.FDS)]
    assert check(joined.joined(3000), rules, key="id").ok
    assert len(joined.cfds(125)) == 125
