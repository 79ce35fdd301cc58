"""Pictures for README and tutorial, drawn from what the commands print on the demo shop: terminals and the report."""

from __future__ import annotations

import contextlib
import json
import re
import tempfile
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from docs.pages import ROOT
from docs.session import environment
from holdstrue.cli.main import app
from holdstrue.demo.walk import make_shop, steps

PICTURES = ROOT / "docs" / "images"
WIDE, LINE, LETTER = 960, 18, 7.83
"""Pixels of a picture's width, between lines, and of a letter of 13 pixels in most fixed fonts."""
SGR = re.compile(r"\x1b\[([\d;]*)m")
INKS = {"1;31": "bad", "32": "good", "33": "note", "1;33": "mark", "2": "faint", "1": "strong", "0": "", "": ""}
STYLE = """\
svg { color-scheme: light dark; }
text { font: 13px ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; fill: #24292f; white-space: pre; }
.page { fill: #ffffff; stroke: #d0d7de; } .bar { fill: #f2f4f6; } .line { stroke: #e2e5e9; }
.bad { fill: #b3261e; font-weight: bold; } .good { fill: #1a7f37; } .note { fill: #8a6100; }
.mark { fill: #8a6100; font-weight: bold; } .faint { fill: #6b7280; } .strong { font-weight: bold; }
.title { font: bold 20px sans-serif; } .said { font: bold 15px sans-serif; fill: #b3261e; }
.words { font: 13px sans-serif; } .head { font: 11px sans-serif; fill: #6b7280; }
.curve { fill: none; stroke: #0b57a4; stroke-width: 1.5; }
@media (prefers-color-scheme: dark) {
  text { fill: #d7dde4; } .page { fill: #14181d; stroke: #343b44; } .bar { fill: #1e242b; } .line { stroke: #2b323a; }
  .bad, .said { fill: #ff8f85; } .good { fill: #6fdd8b; } .note, .mark { fill: #e8c35f; }
  .faint, .head { fill: #97a1ad; } .curve { stroke: #7ab8ff; }
}
"""


def pictures() -> dict[str, str]:
    """Every picture by its name."""
    with tempfile.TemporaryDirectory() as place:
        shop = Path(place) / "shop"
        _, days = make_shop(shop)
        printed = {}
        with contextlib.chdir(shop):
            for step in steps(days):
                if step.command[0] in ("check", "init", "apply"):
                    printed[" ".join(step.command)] = _printed(*step.command)
            status = json.loads(_printed("status", "state", "--history", "--format", "json", color=False))
    friday = next(name for name in printed if "friday" in name)
    first = next(iter(printed))
    return {
        "check.svg": terminal(_command(first) + printed[first].splitlines()),
        "apply.svg": terminal(_command(friday) + printed[friday].splitlines()),
        "report.svg": report(status),
    }


def _printed(*words: str, color: bool = True) -> str:
    with environment(**({"NO_COLOR": "", "FORCE_COLOR": "1"} if color else {})):
        result = CliRunner().invoke(app, list(words), prog_name="holdstrue")
    assert result.exit_code in (0, 1), result.output
    return result.output


def _command(words: str) -> list[str]:
    """A command, broken before its options where it is long."""
    lines = [f"$ holdstrue {words}"]
    while len(lines[-1]) > 110:
        cut = lines[-1].rindex(" --", 0, 110)
        lines[-1:] = [lines[-1][:cut] + " \\", "   " + lines[-1][cut:]]
    return [f"\x1b[1m{line}\x1b[0m" for line in lines]


def terminal(lines: Sequence[str]) -> str:
    """Lines as a terminal shows them."""
    parts = ['<rect class="bar" x="0.5" y="0.5" width="959" height="28" rx="8"/>']
    parts += [f'<circle cx="{18 + 18 * i}" cy="14" r="5" class="faint"/>' for i in range(3)]
    for number, line in enumerate(lines):
        spans = "".join(
            f'<tspan x="{16 + at * LETTER:.2f}"{_class(ink)}>{escape(text)}</tspan>' for at, ink, text in _spans(line)
        )
        parts.append(f'<text y="{52 + number * LINE}">{spans}</text>')
    return _svg(52 + len(lines) * LINE, parts)


def _class(ink: str) -> str:
    return f' class="{ink}"' if ink else ""


def _spans(line: str) -> Iterator[tuple[int, str, str]]:
    """The parts of a line: the column where each begins, its ink and its text.

    >>> list(_spans("a \\x1b[1;31mb\\x1b[0m c"))
    [(0, '', 'a '), (2, 'bad', 'b'), (3, '', ' c')]
    """
    column, ink, at = 0, "", 0
    for code in (*SGR.finditer(line), None):
        text = line[at : len(line) if code is None else code.start()]
        if text:
            yield column, ink, text
        column += len(text)
        if code is not None:
            ink, at = INKS[code[1]], code.end()


def report(status: dict[str, Any]) -> str:
    """The head of the report: rules, what is open, and how that went over the batches."""
    rules = status["rules"]
    said = f"{sum(rule['open'] for rule in rules):,} violations of {sum(rule['open'] > 0 for rule in rules)} rules"
    tables = ", ".join(f"{table['rows']:,} rows of {name}" for name, table in status["tables"].items())
    parts = [
        '<text x="28" y="42" class="title">The shop</text>',
        f'<text x="28" y="68" class="said">{said}</text>',
        f'<text x="28" y="92" class="words faint">{escape(tables)}</text>',
        '<text x="52" y="122" class="head">rule</text>',
        '<text x="640" y="122" class="head" text-anchor="end">violations</text>',
        '<text x="720" y="122" class="head" text-anchor="end">rows</text>',
        '<text x="760" y="122" class="head">over time</text>',
    ]
    top = 130
    for rule in rules:
        mark, ink = ("✗", "bad") if rule["open"] else ("✓", "good")
        text = rule["text"] if len(rule["text"]) <= 86 else rule["text"][:85] + "…"
        opened = [batch["open"] for batch in status["history"] if batch["rule"] == rule["name"]]
        parts += [
            f'<line class="line" x1="28" x2="932" y1="{top}" y2="{top}"/>',
            f'<text x="28" y="{top + 20}" class="{ink}">{mark}</text>',
            f'<text x="52" y="{top + 20}" class="words">{escape(rule["name"])}</text>',
            f'<text x="52" y="{top + 37}" class="faint" style="font-size:11px">{escape(text)}</text>',
            f'<text x="640" y="{top + 20}" text-anchor="end" class="words">{rule["open"]:,}</text>',
            f'<text x="720" y="{top + 20}" text-anchor="end" class="words">{rule["rows"]:,}</text>',
            f'<polyline class="curve" points="{_curve(opened, 760, top + 8, 172, 26)}"/>',
        ]
        top += 46
    return _svg(top + 14, parts)


def _curve(values: Sequence[int], left: float, top: float, width: float, height: float) -> str:
    """Points of a line over values.

    >>> _curve([0, 2, 1], 0, 0, 10, 4)
    '0.0,4.0 5.0,0.0 10.0,2.0'
    """
    most, last = max(*values, 1), max(len(values) - 1, 1)
    return " ".join(
        f"{left + width * at / last:.1f},{top + height * (1 - value / most):.1f}" for at, value in enumerate(values)
    )


def _svg(height: float, parts: Sequence[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {height}" width="{WIDE}" height="{height}">'
    page = f'<rect class="page" x="0.5" y="0.5" width="{WIDE - 1}" height="{height - 1}" rx="8"/>'
    return "\n".join((head, f"<style>\n{STYLE}</style>", page, *parts, "</svg>\n"))


def main() -> None:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
        print(f"docs/images/{name}")


if __name__ == "__main__":
    main()
