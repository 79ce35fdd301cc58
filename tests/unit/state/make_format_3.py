"""Makes `format_3.txt`: a state of format 3, as the tree at commit 87077f6 wrote it, packed as text.

    git worktree add ../format3 87077f6
    PYTHONPATH=../format3/src python tests/unit/state/make_format_3.py

It has a checkpoint and three batches since; each version is a manifest.
"""

from __future__ import annotations

import base64
import io
import tarfile
import tempfile
from pathlib import Path

import pyarrow as pa

import holdstrue

ROWS = pa.table({"id": [1, 2, 3], "zip": ["1", "1", "2"], "city": ["Bonn", "Ulm", "Kiel"]})
BATCHES = {
    "monday": pa.table({"id": [4], "zip": ["2"], "city": ["Bonn"], "op": ["insert"]}),
    "tuesday": pa.table({"id": [2], "zip": ["1"], "city": ["Bonn"], "op": ["update"]}),
    "wednesday": pa.table({"id": [5], "zip": ["3"], "city": ["Trier"], "op": ["insert"]}),
}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made, io.BytesIO() as packed:
        with holdstrue.Monitor.create(Path(made) / "state", "zip -> city", "id", data=ROWS) as monitor:
            for name, batch in BATCHES.items():
                monitor.apply(batch, batch_id=name)
        with tarfile.open(fileobj=packed, mode="w:xz", preset=9) as tar:
            tar.add(Path(made) / "state", "state")
        lines = base64.encodebytes(packed.getvalue()).decode()
        Path(__file__).with_name("format_3.txt").write_text(lines, encoding="ascii")
