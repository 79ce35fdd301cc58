"""How much of the source one command passes through: distinct files and functions of holdstrue that are entered.

`python benchmarks/passage.py` prints them for `check`, `apply`, an apply over shards and `discover`, with the number
of class names that have several meanings and the lines of the source. Fewer is a house that is easier to know.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "holdstrue"
RULES = "rules:\n  - zip -> city\n  - key(id)\n  - not(t.state = s.state and t.salary > s.salary and t.tax < s.tax)\n"


def passed(work: Callable[[], Any]) -> tuple[int, int]:
    """Files and functions of the package that some work enters; modules and class bodies are not functions."""
    entered: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            entered.add(frame.f_code)

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    own = {
        (code.co_filename, code.co_qualname)
        for code in entered
        if code.co_filename.startswith(str(SOURCE)) and code.co_name not in ("<module>", "<listcomp>", "<genexpr>")
    }
    own = {(file, name) for file, name in own if "<lambda>" not in name and "comp>" not in name}
    functions = {(file, name) for file, name in own if not _is_class(file, name)}
    return len({file for file, _ in functions}), len(functions)


def _is_class(file: str, name: str) -> bool:
    return name.rsplit(".", 1)[-1][:1].isupper()


def command(*args: str) -> Callable[[], None]:
    """A run of the command line, its output thrown away."""

    def run() -> None:
        from holdstrue.cli.main import run as main

        sys.argv = ["holdstrue", *args]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main()

    return run


def sharded(folder: Path, rows: Any, more: Any) -> Callable[[], Any]:
    """A batch over shards, its stages run in loops as the law tests do."""
    sys.path.insert(0, str(ROOT / "tests"))
    from laws.shards import Loops

    from holdstrue.monitor.sharded import Sharded

    monitor = Sharded(Loops(2), folder / "sharded", (folder / "rules.yaml"), key="id")
    monitor.apply([rows])
    return lambda: monitor.apply([more])


def several_meanings() -> list[str]:
    """Names that several classes have."""
    names: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        names.update(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return sorted(name for name, count in names.items() if count > 1)


def main() -> None:
    """Print the counts."""
    import pyarrow as pa
    import pyarrow.csv

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "rules.yaml").write_text(RULES, encoding="utf-8")
        rows = [(i, f"z{i % 40}", f"c{i % 41}", f"s{i % 7}", i * 13 % 997, i * 7 % 499) for i in range(600)]
        names = ["id", "zip", "city", "state", "salary", "tax"]
        table = pa.table({name: [row[at] for row in rows] for at, name in enumerate(names)})
        first, more = table.slice(0, 500), table.slice(500)
        for name, part in (("data", first), ("more", more)):
            pa.csv.write_csv(part, folder / f"{name}.csv")
        data, rules, state = (str(folder / name) for name in ("data.csv", "rules.yaml", "state"))
        command("init", state, "--rules", rules, "--key", "id", "--data", data)()
        print(f"{'':16}{'files':>6}{'functions':>11}")  # noqa: T201
        for name, work in (
            ("check", command("check", data, "--rules", rules)),
            ("apply", command("apply", state, str(folder / "more.csv"))),
            ("sharded apply", sharded(folder, first, more)),
            ("discover", command("discover", data)),
        ):
            files, functions = passed(work)
            print(f"{name:16}{files:6}{functions:11}")  # noqa: T201
    lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCE.rglob("*.py"))
    print(f"class names with several meanings: {len(several_meanings())} {' '.join(several_meanings())}")  # noqa: T201
    print(f"lines of the source: {lines:,}")  # noqa: T201


if __name__ == "__main__":
    main()
