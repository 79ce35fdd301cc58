"""Change files that do not fit, in one process: they end the watch, are passed over, or are kept with the reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from holdstrue.cli.failures import with_option
from holdstrue.errors import ChangeError, HoldstrueError
from holdstrue.location import local_path
from holdstrue.progress import LOG

if TYPE_CHECKING:
    from holdstrue.detect.delta import Delta
    from holdstrue.monitor.monitor import Monitor


@dataclass(frozen=True)
class BadFiles:
    """What becomes of them."""

    on_bad_batch: Literal["stop", "skip", "quarantine"] = "stop"
    letters: Path | None = None

    @staticmethod
    def of(on_bad_batch: Literal["stop", "skip", "quarantine"], dead_letters: str | None) -> BadFiles:
        """As the options of a command say."""
        if on_bad_batch == "quarantine" and dead_letters is None:
            raise HoldstrueError(
                "--on-bad-batch quarantine needs a place for what does not fit", hint="give --dead-letters DIR"
            )
        return BadFiles(on_bad_batch, None if dead_letters is None else Path(local_path(dead_letters, "output")))

    def passed(self, monitor: Monitor, batch: str, file: Path, error: HoldstrueError) -> Delta:
        """Pass over a file: a batch without changes is committed in its place, so that it is not tried again."""
        if self.on_bad_batch == "stop":
            raise (with_option(error) if isinstance(error, ChangeError) else error) from error
        done = "passed over"
        if self.letters is not None:
            done = f"set aside in {self.letters}"
            self._keep(batch, file, error)
        said = f"{file.name} was {done}: {error.message}"
        LOG.warning("batch %s: %s", batch, said)
        return replace(monitor.apply({}, batch, limit=0), notes=(said,))

    def _keep(self, batch: str, file: Path, error: HoldstrueError) -> None:
        """The file as it is, and beside it the reason; an earlier attempt at the same file is written over."""
        assert self.letters is not None
        folder = self.letters / "".join(c if c.isalnum() or c in "-_." else "-" for c in batch)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, folder / file.name)
        told = {"file": file.name, "batch": batch, "reason": error.message, "hint": error.hint}
        (folder / "reason.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
