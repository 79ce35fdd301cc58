"""Large tables where neither the driver nor the workers have much memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROWS = 10_000_000


@pytest.mark.soak  # two minutes on two cores, with a Java of its own
def test_ten_million_rows_with_little_memory(tmp_path: Path) -> None:
    """A driver of 512 MB, results of 4 MB, workers that may address 1 GB; rules by Catalyst need no workers."""
    script = Path(__file__).with_name("little_memory.py")
    command = [sys.executable, str(script), str(ROWS), str(tmp_path / "table"), "1g"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout.splitlines()[-1])
    group = ROWS // 1000
    # row 12,345 is below the twelve before it in its group
    assert said == {
        "counts": [[0, 0], [group, group - 1], [0, 0], [0, 0], [13, 12]],
        "rows": ROWS,
        "native": [0, 1, 2, 3],
    }
