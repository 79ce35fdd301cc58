"""Violating groups are listed whatever index finds the pairs."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from holdstrue import Monitor
from holdstrue.report import Groups, render

ROWS = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "1"], "city": ["Bonn", "Ulm", "Ulm"]})


@pytest.mark.parametrize("index", ["lt_tree", "chains"])
def test_groups(index: Any) -> None:
    told = []
    for own in ("blocks", index):
        monitor = Monitor(["zip -> city", "key(city)"], key="id", data=ROWS, index=own)
        groups = Groups(monitor.report())
        assert groups.total == 2
        told.append(render(groups))
    assert told[0] == told[1]
    assert "Bonn" in told[0]
