"""From a fresh clone to the first answer and the whole demo: `python benchmarks/first_minutes.py`.

A clone of this checkout's last commit is installed into a new environment, as a reader of the README would do it, and
every step is timed once, wall clock, in a process of its own. Compiled kernels lie beside the installed modules, so the
first run of a command is cold and the second is not: the difference is compiling. `--locked` also times what
`scripts/test` and `scripts/demo` install: every version of the lock, Spark and the tools included.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from measure import machine

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
TABLE = "id,zip,city\n1,10,Bonn\n2,10,Ulm\n3,11,Kiel\n"
CHECK = ("check", "t.csv", "--rule", "zip -> city", "--key", "id")
DISCOVER = ("discover", "t.csv", "--key", "id")

Row = tuple[str, float, str]
"""What was done, its seconds, and what they are made of."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--locked", action="store_true", help="also install the whole lock, as scripts/test does")
    parser.add_argument("--no-save", action="store_true", help="print only")
    args = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="first-minutes-") as folder:
        rows = measured(Path(folder), locked=args.locked)
        walk = walked(Path(folder))
    text = table(rows, walk)
    print(text, end="")
    if not args.no_save:
        day = dt.datetime.now(dt.UTC).date().isoformat()
        (RESULTS / f"{day}-first-minutes.md").write_text(text, encoding="utf-8")
    return 0


def measured(place: Path, *, locked: bool) -> list[Row]:
    """The steps in order."""
    clone, work = place / "holdstrue", place / "work"
    work.mkdir()
    (work / "t.csv").write_text(TABLE, encoding="utf-8")
    python = place / "venv" / "bin" / "python"
    command = str(place / "venv" / "bin" / "holdstrue")
    rows: list[Row] = []

    def step(what: str, *line: str, made_of: str = "", codes: tuple[int, ...] = (0,)) -> float:
        seconds = _run(line, work, codes)
        rows.append((what, seconds, made_of))
        return seconds

    step("clone", "git", "clone", "--quiet", str(ROOT), str(clone))
    step("environment", sys.executable, "-m", "venv", str(place / "venv"), made_of="`python -m venv`")
    step(
        "packages", str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(clone),
        made_of="`pip install .`: numpy, numba, pyarrow, rich, typer, yaml; as fast as the index answers",
    )  # fmt: skip
    for what, line in (("first `check`", CHECK), ("first `discover`", DISCOVER)):
        cold = step(what, command, *line, codes=(0, 1))
        warm = step(what.replace("first", "second"), command, *line, codes=(0, 1))
        rows[-2] = (what, cold, f"{cold - warm:.1f} s compiling, {warm:.1f} s starting, importing and running")
    cold = step("first `demo`", command, "demo", "one")
    warm = step("second `demo`", command, "demo", "two")
    rows[-2] = (
        "first `demo`",
        cold,
        f"{cold - warm:.1f} s compiling what the commands before had not, {warm:.1f} s else",
    )
    # each part anew: what a reader pays who starts with the demo
    _forget(place)
    cold = step("`demo` as the very first command", command, "demo", "three")
    rows[-1] = ("`demo` as the very first command", cold, f"{cold - warm:.1f} s compiling, {warm:.1f} s else")
    if locked:
        step("all packages of the lock", "bash", "-c", f"source {clone}/scripts/env.sh", made_of="`scripts/env.sh`")
    return rows


def walked(place: Path) -> list[tuple[str, float, float]]:
    """Each command of the demo by itself, in order: its name, seconds with nothing compiled for it, and once it is."""
    work = place / "work"
    command = str(place / "venv" / "bin" / "holdstrue")
    shown = subprocess.run([command, "demo", "four"], cwd=work, capture_output=True, text=True, check=True).stdout
    lines = [shlex.split(line)[2:] for line in shown.splitlines() if line.startswith("$ holdstrue ")]
    _forget(place)
    seconds: list[list[float]] = []
    for shop in ("five", "six"):
        _run((command, "demo", "--data-only", shop), work, (0,))
        seconds.append([_run((command, *line), work / shop, (0, 1)) for line in lines])
    names = [" ".join(word for word in line[:3] if not word.startswith("-")) for line in lines]
    return list(zip(names, *seconds, strict=True))


def _forget(place: Path) -> None:
    """Remove what was compiled."""
    for cached in (place / "venv").rglob("*.nb[ic]"):
        cached.unlink()


def table(rows: Sequence[Row], walk: Sequence[tuple[str, float, float]] = ()) -> str:
    """The measurements as a page."""
    about = ", ".join(f"{name} {value}" for name, value in machine().items())
    seconds = {what: took for what, took, _ in rows}
    installed = seconds["clone"] + seconds["environment"] + seconds["packages"]
    lines = [
        "# From a fresh clone to the first answer",
        "",
        f"{about}. Wall clock, each step once, in a process of its own (`python benchmarks/first_minutes.py`).",
        "",
        "| step | seconds | what takes it |",
        "|---|---|---|",
        *(f"| {what} | {took:.1f} | {made_of} |" for what, took, made_of in rows),
        "",
        f"From the clone to the first answer {installed + seconds['first `check`']:.0f} s, of which {installed:.0f} s "
        f"are clone, environment and packages. To the end of the demo as the very first command "
        f"{installed + seconds['`demo` as the very first command']:.0f} s.",
    ]
    if walk:
        lines += [
            "",
            "The commands of the demo, each in a process of its own; each compiles what those before it did not:",
            "",
            "| command | first, s | again, s |",
            "|---|---|---|",
            *(f"| `{name}` | {cold:.1f} | {warm:.1f} |" for name, cold, warm in walk),
        ]
    return "".join(f"{line}\n" for line in lines)


def _run(line: Sequence[str], work: Path, codes: tuple[int, ...]) -> float:
    """Seconds that a command takes; one that ends otherwise than it should is an error."""
    # nothing of the tree that measures may be found by what is measured
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")}
    start = time.perf_counter()
    done = subprocess.run(line, cwd=work, env=clean, capture_output=True, text=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(line)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return seconds


if __name__ == "__main__":
    sys.exit(main())
