"""A state of any kind looked through: its files, then what it holds."""

from __future__ import annotations

from holdstrue.errors import HoldstrueError
from holdstrue.report.typeset import plural
from holdstrue.report.upkeep import Verified
from holdstrue.state.files import GoneError, StateFiles
from holdstrue.state.journal import READ_WITH, Kind
from holdstrue.state.store import Problem
from holdstrue.state.verify import Examined, examine

LOOKS = 5
"""Times that a state is looked through because a writer removed files meanwhile."""


def verified(path: str) -> Verified:
    """Compare every file, then open the newest version. Complexity: O(bytes of the state)."""
    found = _examined(path)
    problems, opened = list(found.problems), None
    if not problems:
        try:
            wrong, opened = _opened(path)
            problems += [Problem("what it holds", why) for why in wrong]
        except HoldstrueError as error:
            problems.append(Problem("when it is opened", error.message))
    return Verified(
        path=path,
        kind=found.kind,
        versions=found.versions,
        files=found.files,
        bytes=found.bytes,
        problems=tuple(problems),
        strays=found.strays,
        others=found.others,
        opened=opened,
    )


def _examined(path: str) -> Examined:
    """What there is; where something seems wrong while others write, they are given the chance to be the reason."""
    for last in (False,) * (LOOKS - 1) + (True,):
        with StateFiles(path) as files:
            before = files.store.survey().entries
            found = examine(files)
            if not found.problems or last or files.store.survey().entries == before:
                break
    return found


def _opened(path: str) -> tuple[list[str], str]:
    """What is wrong with what the newest version holds, and what was looked at."""
    with StateFiles(path) as files:
        kind: Kind = files.manifest()["kind"]
    for _ in range(LOOKS):
        try:
            return _looked_into(path, kind)
        except GoneError:
            continue
    return _looked_into(path, kind)


def _looked_into(path: str, kind: Kind) -> tuple[list[str], str]:
    if kind == "monitor":
        return _counted(path)
    if kind == "discovery":
        from holdstrue.discovery.discovery import Discovery

        found = Discovery.open(path, read_only=True)
        return [], f"opened: {plural(len(found), 'rule')} in {plural(sum(found.counts().values()), 'row')}"
    return [], f"not opened: {READ_WITH[kind].replace('STATE', path)}"


def _counted(path: str) -> tuple[list[str], str]:
    from holdstrue.monitor.format_1 import is_format_1
    from holdstrue.monitor.monitor import Monitor
    from holdstrue.monitor.recount import differences, recounted, wrong_measures
    from holdstrue.shards.facts import Facts
    from holdstrue.shards.status import sharded_counts
    from holdstrue.state.journal import manifest_of

    with Monitor.open(path, read_only=True) as monitor:
        version = None if monitor.moment is None else monitor.moment.version
        manifest = manifest_of(path, "monitor", version)
        # opening compares what the version says with its indexes; of shards they are made anew then
        in_shards = "sharding" in manifest and not is_format_1(manifest)
        kept = sharded_counts(path, manifest) if in_shards else monitor.counts()
        rows, anew = monitor.rows, recounted(monitor)
        wrong = [*differences(kept, anew), *wrong_measures(monitor, Facts.of(manifest).measures)]
    agree = "" if wrong else ", all as they are kept"
    return wrong, f"opened: {plural(len(anew), 'rule')} counted anew from {plural(sum(rows.values()), 'row')}{agree}"
