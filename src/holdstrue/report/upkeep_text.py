"""What became of the files of a state, as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdstrue.report.typeset import Style, plural, printable
from holdstrue.report.upkeep import Vacuumed, Verified
from holdstrue.state.moment import span, told


def vacuumed_text(answer: Vacuumed, _: Style) -> Iterator[str]:
    """What was removed, and what is kept."""
    if answer.files or answer.versions:
        gone = f"removed {plural(answer.files, 'file')} and {plural(answer.versions, 'version')}, {size(answer.bytes)}"
    else:
        gone = "nothing to remove"
    yield f"{printable(answer.path)}: {gone}\n"
    readable = f"versions {answer.first} to {answer.last}" if answer.first < answer.last else f"version {answer.last}"
    since = "" if answer.since is None else f", from {told(answer.since)} on"
    yield f"  can be read: {readable}{since}\n"
    kept = f"for {span(answer.keep)}" if answer.keep else "until the next checkpoints (--keep 7d for longer)"
    yield f"  versions are kept {kept}\n"


SHOWN = 20
"""Files that nobody names which are listed; all problems are."""


def verified_text(answer: Verified, style: Style) -> Iterator[str]:
    """Whether a state is as it was written, and file by file what is not."""
    ink = style.ink
    whose = "" if answer.kind is None else f" ({answer.kind})"
    looked = f"{which(answer.versions)}, {plural(answer.files, 'file')} and entries, {size(answer.bytes)}"
    told = ink.paint("good", "all right") if answer.ok else ink.paint("bad", plural(len(answer.problems), "problem"))
    yield f"{printable(answer.path)}{whose}: {looked}: {told}\n"
    for problem in answer.problems:
        yield f"  {ink.paint('bad', '✗')} {printable(problem.name)}: {printable(problem.why)}\n"
    if answer.opened is not None:
        yield f"  {answer.opened}\n"
    if answer.strays:
        count = sum(stray.size for stray in answer.strays)
        yield (
            f"  {plural(len(answer.strays), 'file')} that no version names, {size(count)}: left by batches that were "
            "given up, or being written; holdstrue vacuum removes what is left, in object stores after an hour\n"
        )
    if answer.others:
        yield f"  {plural(len(answer.others), 'thing')} that no state needs: {_some(answer.others)}\n"


def which(versions: Sequence[int]) -> str:
    """Versions in words.

    >>> which([]), which([3]), which([3, 4, 5]), which([3, 4, 7])
    ('no version', 'version 3', 'versions 3 to 5', '3 versions from 3 to 7')
    """
    if len(versions) < 2:
        return f"version {versions[0]}" if versions else "no version"
    gaps = versions[-1] - versions[0] >= len(versions)
    return f"{f'{len(versions)} versions from' if gaps else 'versions'} {versions[0]} to {versions[-1]}"


def _some(names: Sequence[str]) -> str:
    rest = len(names) - SHOWN
    return ", ".join(printable(name) for name in names[:SHOWN]) + (f", … {rest:,} more" if rest > 0 else "")


def size(count: int) -> str:
    """Bytes for people.

    >>> size(0), size(900), size(1500), size(12_345_678)
    ('0 bytes', '900 bytes', '1.5 kB', '12.3 MB')
    """
    if count < 1000:
        return plural(count, "byte")
    power = min(4, (len(str(count)) - 1) // 3)
    return f"{count / 1000**power:.1f} {('kB', 'MB', 'GB', 'TB')[power - 1]}"
