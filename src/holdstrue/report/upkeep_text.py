"""What became of the files of a state, as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from holdstrue.report.typeset import Style, plural, printable
from holdstrue.report.upkeep import Vacuumed
from holdstrue.state.moment import span, told


def vacuumed_text(answer: Vacuumed, _: Style) -> Iterator[str]:
    """What was removed, and what is kept."""
    if answer.files or answer.versions:
        gone = f"removed {plural(answer.files, 'file')} and {plural(answer.versions, 'version')}, {size(answer.bytes)}"
    else:
        gone = "nothing to remove"
    yield f"{printable(answer.path)}: {gone}\n"
    which = f"versions {answer.first} to {answer.last}" if answer.first < answer.last else f"version {answer.last}"
    since = "" if answer.since is None else f", from {told(answer.since)} on"
    yield f"  can be read: {which}{since}\n"
    kept = f"for {span(answer.keep)}" if answer.keep else "until the next checkpoints (--keep 7d for longer)"
    yield f"  versions are kept {kept}\n"


def size(count: int) -> str:
    """Bytes for people.

    >>> size(0), size(900), size(1500), size(12_345_678)
    ('0 bytes', '900 bytes', '1.5 kB', '12.3 MB')
    """
    if count < 1000:
        return plural(count, "byte")
    power = min(4, (len(str(count)) - 1) // 3)
    return f"{count / 1000**power:.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
