"""Importing the package is cheap: neither numba nor pyarrow nor pyspark comes along."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["holdstrue", "holdstrue.rules", "holdstrue.cli.main"])
def test_heavy_packages_stay_out(module: str) -> None:
    heavy = ("numba", "numpy", "pyarrow", "pyspark", "pandas", "polars", "yaml")
    code = f"import sys, {module}; print(*[name for name in {heavy} if name in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert loaded == []
