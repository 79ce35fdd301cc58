"""Importing the package is cheap: neither numba nor pyarrow nor pyspark comes along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("module", ["holdstrue", "holdstrue.rules", "holdstrue.cli.main"])
def test_heavy_packages_stay_out(module: str) -> None:
    heavy = ("numba", "numpy", "pyarrow", "pyspark", "pandas", "polars", "yaml")
    code = f"import sys, {module}; print(*[name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []


def test_a_state_is_made_and_brought_to_a_snapshot_without_pandas(tmp_path: Path) -> None:
    """Arrow imports it, where it is installed, for some of what it does: a third of a second of every command."""
    (tmp_path / "old.csv").write_text("id,zip,city\n1,a,x\n2,a,y\n", encoding="utf-8")
    (tmp_path / "new.csv").write_text("id,zip,city\n2,a,x\n3,a,x\n", encoding="utf-8")
    code = (
        "import sys; from holdstrue import Monitor\n"
        "Monitor.create('state', ['zip -> city'], 'id', data='old.csv').close()\n"
        "monitor = Monitor.open('state'); monitor.apply('new.csv', snapshot=True, limit=0); monitor.close()\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "False\n"
