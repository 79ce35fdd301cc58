"""The files that hold a state, or a shard of it: a checkpoint, and the batches since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdstrue.state.manifest import RunFile

CHECKPOINT_SHARE = 16
"""Runs that hold this part of a state cause a checkpoint: a changed row is written some sixteen times in all."""
CHECKPOINT_FROM = 10_000
"""Fewer logged rows than this never cause a checkpoint. Chosen, not tuned."""
MOST_RUNS = 512
"""More batches than this cause a checkpoint: to read one takes 0.2 ms when a state is opened."""
MOVED = "moved"
"""The file of a checkpoint that says to which slots it moved the rows of the version it was made of."""


@dataclass(frozen=True)
class Runs:
    """Names of the files that hold a state or a shard of it; new files make new `Runs`, nothing is overwritten."""

    base: Mapping[str, RunFile] = field(default_factory=dict)
    """The checkpoint."""
    log: tuple[RunFile, ...] = ()
    """The batches since, oldest first."""
    log_rows: int = 0
    moved: int | None = None
    """Where the checkpoint moved rows to other slots (its file `moved` says to which), how many runs of the log still
    name the slots of before; None: all of them."""

    def to_dict(self) -> dict[str, Any]:
        """As plain JSON data."""
        return {
            "base": {name: file.to_dict() for name, file in self.base.items()},
            "log": [file.to_dict() for file in self.log],
            "log_rows": self.log_rows,
        }

    @staticmethod
    def of(data: Mapping[str, Any]) -> Runs:
        """From plain JSON data."""
        return Runs(
            {name: RunFile.of(file) for name, file in data["base"].items()},
            tuple(RunFile.of(file) for file in data["log"]),
            data["log_rows"],
            data.get("moved"),
        )

    def due(self, size: int, total: int, *, patience: int = 1) -> bool:
        """Whether a batch of so many rows, in a state of so many, should cause a checkpoint."""
        most = patience * max(CHECKPOINT_FROM, total // CHECKPOINT_SHARE)
        return self.log_rows + size > most or len(self.log) >= patience * MOST_RUNS

    def renumbered(self) -> Runs:
        """The same where whoever writes from now on names the slots that the checkpoint moved rows to."""
        return replace(self, moved=len(self.log))

    @property
    def renumbering(self) -> bool:
        """Whether there is a checkpoint that moved rows, and nobody wrote since who knows."""
        return MOVED in self.base and self.moved is None

    def appended(self, file: RunFile, size: int) -> Runs:
        """The same with one more run."""
        return Runs(self.base, (*self.log, file), self.log_rows + size, self.moved)


@dataclass(frozen=True)
class Mark:
    """How far a log went when somebody began to write a checkpoint beside it."""

    version: int
    base: Mapping[str, RunFile]
    """The checkpoint that the log went on from."""
    runs: int
    rows: int
    batches: int
