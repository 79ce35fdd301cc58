"""The inclusion scenario at a tiny size: Spider and both structures answer, and the answers are equal."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdstrue.discovery.inclusions.foreign_keys import foreign_keys
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from scenarios import discover_ind
from scenarios.setting import Setting
from workloads.tpch import TRUE_KEYS, tpch
from workloads.wide import rows_for, wide


def test_all_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("desbordante")
    monkeypatch.setattr(discover_ind, "ATTRIBUTES", (24,))
    monkeypatch.setattr(discover_ind, "BY_ATTRIBUTES", (24,))
    setting = Setting(tmp_path, (3000,), "", (), batches=2, batch=20, warm=1, quick=True)
    outcome = discover_ind.run(setting)
    assert [record["competitor"] for record in outcome.records if record["agrees"]] == [
        "holdstrue",
        "spider",
        "counters",
        "counters",
        "clusters",
    ]
    assert "TPC-H, 3,000 lines" in outcome.tables[0].markdown()


def test_the_same_seed_gives_the_same_tables() -> None:
    assert tpch(400)["lineitem"].equals(tpch(400)["lineitem"])
    assert not tpch(400, seed=2)["lineitem"].equals(tpch(400)["lineitem"])
    assert wide(20, 24, 100, 1)["t1"].equals(wide(20, 24, 100, 1)["t1"])
    assert sum(len(table.column_names) for table in tpch(400).values()) == 61
    assert rows_for(1_000_000, 60) > rows_for(1_000_000, 120) > 1000


def test_true_keys_of_tpch_are_ranked_first() -> None:
    tables = tpch(20_000)
    ranked = foreign_keys(InclusionCore.load(tables), tables)
    best: dict[str, str] = {}
    for one in ranked:
        body = one.found.body
        best.setdefault(f"{body.table}.{body.columns[0]}", f"{body.ref_table}.{body.ref_columns[0]}")
    assert {column: best[column] for column in TRUE_KEYS} == TRUE_KEYS
