"""A damaged Arrow or Parquet file is answered or refused: it never ends the process and never fails inside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
AT_ONCE = 2500


def read_damaged(folder: Path, first: int, last: int) -> None:
    """Make and read the damaged files of some seeds in another process."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    ran = subprocess.run(
        [sys.executable, "-m", "laws.damage", str(folder), str(first), str(last)],
        capture_output=True, text=True, check=False, timeout=1800, env=os.environ | {"PYTHONPATH": path},
    )  # fmt: skip
    last_line = ran.stdout.splitlines()[-1] if ran.stdout else ""
    assert ran.returncode == 0, (ran.returncode, last_line, ran.stderr[-4000:])
    assert last_line.startswith("done")


def test_damaged_files(tmp_path: Path) -> None:
    read_damaged(tmp_path, 0, 300)


@pytest.mark.soak
def test_many_damaged_files(tmp_path: Path) -> None:
    for first in range(300, 50_300, AT_ONCE):
        read_damaged(tmp_path, first, first + AT_ONCE)
