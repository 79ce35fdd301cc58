"""What a crash leaves of the checkpoint that Spark keeps of a stream."""

from __future__ import annotations

from pathlib import Path


def forget_last(checkpoint: Path) -> None:
    """Take back Spark's note that the last batch is done."""
    commits = sorted((checkpoint / "spark" / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    commits[-1].unlink()
    (commits[-1].parent / f".{commits[-1].name}.crc").unlink(missing_ok=True)
