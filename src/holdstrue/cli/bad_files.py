"""Change files that do not fit, in one process: they end the watch, are passed over, or are kept with the reason."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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

    def passed(self, monitor: Monitor, batch: str, name: str, changes: Any, error: HoldstrueError) -> Delta:
        """Pass over a file: a batch without changes is committed in its place, so that it is not tried again."""
        if self.on_bad_batch == "stop":
            raise (with_option(error) if isinstance(error, ChangeError) else error) from error
        done = "passed over"
        if self.letters is not None:
            done = f"set aside in {self.letters}"
            self._keep(batch, name, changes, error)
        said = f"{name} was {done}: {error.message}"
        LOG.warning("batch %s: %s", batch, said)
        return replace(monitor.apply({}, batch, limit=0), notes=(said,))

    def _keep(self, batch: str, name: str, changes: Any, error: HoldstrueError) -> None:
        """The file as it is (of an object store its copy), and beside it the reason, over what an earlier try left."""
        assert self.letters is not None
        folder = self.letters / "".join(c if c.isalnum() or c in "-_." else "-" for c in batch)
        folder.mkdir(parents=True, exist_ok=True)
        path = Path(changes) if isinstance(changes, str) else changes.files[0].path
        shutil.copy2(path, folder / Path(name).name)
        told = {"file": name, "batch": batch, "reason": error.message, "hint": error.hint}
        (folder / "reason.json").write_text(json.dumps(told) + "\n", encoding="utf-8")
