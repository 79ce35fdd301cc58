"""Curves of the scenario `fragments` as SVG: what incremental and batch algorithms take when one thing grows.

    python -m benchmarks.curves benchmarks/results/2026-11-18-fragments.json

One picture a kind of fragments: elapsed milliseconds over |D|, |changes|, CFDs and sites, on logarithmic scales.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, ROOM = 250, 190, 46, 30, 24
COLOURS = {"incremental": "#1f6feb", "batch": "#bc4c00"}
Point = tuple[float, float]


def series(records: list[dict[str, Any]], shape: str) -> dict[str, dict[str, list[Point]]]:
    """By what grows and by algorithm the points that were measured."""
    own = [r for r in records if r.get("shape") == shape and len(r.get("figures", ())) == 2 and r.get("agrees")]
    base = [r for r in own if (r["cfds"], r["sites"]) == (50, 10)]
    fixed = min(r["changes"] for r in base)
    middle = next(r["rows"] for r in own if r["cfds"] == 25)
    kinds = {
        "rows": [r for r in base if r["changes"] == fixed],
        "changes": [r for r in base if r["rows"] == middle],
        "cfds": [r for r in own if r["rows"] == middle and r["changes"] == middle // 100 and r["sites"] == 10],
        "sites": [
            r
            for r in own
            if r["cfds"] == 50 and r["rows"] * 10 == middle * r["sites"] and r["changes"] == r["rows"] // 100
        ],
    }
    found: dict[str, dict[str, list[Point]]] = {}
    for name, some in kinds.items():
        lines = {r[name]: [figures["elapsed_ms"] for figures in r["figures"]] for r in some}
        found[name] = {
            algorithm: [(x, both[at]) for x, both in sorted(lines.items())] for at, algorithm in enumerate(COLOURS)
        }
    return found


def _scale(values: Iterable[float], length: float) -> Any:
    low, high = (math.log10(end) for end in (min(values), max(values)))
    return lambda value: (math.log10(value) - low) / ((high - low) or 1.0) * length


def panel(name: str, lines: dict[str, list[Point]], at: int) -> list[str]:
    """One thing that grows."""
    x0, y0 = LEFT + at * (WIDTH + LEFT + ROOM), TOP
    xs, ys = ([point[axis] for some in lines.values() for point in some] for axis in (0, 1))
    to_x, to_y = _scale(xs, WIDTH), _scale(ys, HEIGHT)
    out = [
        f'<text x="{x0}" y="{y0 - 12}" font-weight="bold">{name}</text>',
        f'<path d="M{x0} {y0}V{y0 + HEIGHT}H{x0 + WIDTH}" fill="none" stroke="#888"/>',
    ]
    for value in (min(ys), max(ys)):
        out.append(f'<text x="{x0 - 6}" y="{y0 + HEIGHT - to_y(value) + 4:.0f}" text-anchor="end">{value:,.0f}</text>')
    for value in sorted({min(xs), max(xs)}):
        out.append(f'<text x="{x0 + to_x(value):.0f}" y="{y0 + HEIGHT + 16}" text-anchor="middle">{value:,.0f}</text>')
    for algorithm, some in lines.items():
        places = [(x0 + to_x(x), y0 + HEIGHT - to_y(y)) for x, y in some]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[algorithm]}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{COLOURS[algorithm]}"/>' for x, y in places]
    return out


def drawn(records: list[dict[str, Any]], shape: str) -> str:
    """The picture of one kind of fragments."""
    parts = [line for at, (name, lines) in enumerate(series(records, shape).items()) for line in panel(name, lines, at)]
    width, height = 4 * (WIDTH + LEFT + ROOM), TOP + HEIGHT + 50
    for at, (algorithm, colour) in enumerate(COLOURS.items()):
        parts.append(f'<text x="{LEFT + at * 130}" y="{height - 8}" fill="{colour}">{algorithm}</text>')
    parts.append(f'<text x="{LEFT + 280}" y="{height - 8}">{shape} fragments, elapsed ms, logarithmic</text>')
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif"'
    return "\n".join(
        [f'{head} font-size="11">', f'<rect width="{width}" height="{height}" fill="#fff"/>', *parts, "</svg>\n"]
    )


def main() -> None:
    """Draw the curves of a result beside it."""
    file = Path(sys.argv[1])
    records = json.loads(file.read_text(encoding="utf-8"))["records"]
    for shape in ("vertical", "horizontal"):
        file.with_name(f"{file.stem}-{shape}.svg").write_text(drawn(records, shape), encoding="utf-8")


if __name__ == "__main__":
    main()
