"""A drawing of tables, their keys and the references between them, as SVG without any dependency.

Tables that refer stand left of what they refer to (Sugiyama's layers, one pass of barycentres); a
reference that skips a layer goes between the boxes there. A whole inclusion is a solid line, a partial
one is dashed and says which share of rows it serves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

from holdstrue.rules.model import Inclusion

if TYPE_CHECKING:
    from holdstrue.discovery.discovery import Discovery
    from holdstrue.discovery.inclusions.ranking import ForeignKey

LETTER = 7.3
"""Width of a letter of the 12-pixel monospaced type."""
ROW = 22
HEAD = 28
PAD = 12
GAP_X = 120
GAP_Y = 28
MARGIN = 24
MOST_COLUMNS = 8
"""Columns a box shows at most; those of keys and references come first."""

_STYLE = """
text { font: 12px ui-monospace, Menlo, Consolas, monospace; fill: #1f2933; }
.name { font-weight: 700; fill: #ffffff; }
.head { fill: #31518b; }
.box { fill: #ffffff; stroke: #31518b; stroke-width: 1.2; }
.key { font-weight: 700; }
.more, .share { fill: #66737f; }
.share { font-size: 11px; paint-order: stroke; stroke: #ffffff; stroke-width: 4px; }
.link { fill: none; stroke: #2f7d5b; stroke-width: 1.6; }
.partial { stroke: #b4641e; stroke-dasharray: 6 4; } .whole { stroke-dasharray: none; }
.dot { fill: #2f7d5b; } .dot.partial { fill: #b4641e; stroke: none; }
""".strip()


@dataclass(frozen=True)
class Reference:
    """Columns of a table that refer to columns of another; `share` of its rows have what they refer to."""

    table: str
    columns: tuple[str, ...]
    ref_table: str
    ref_columns: tuple[str, ...]
    share: float = 1.0


@dataclass
class _Box:
    """A table with its place, or (without rows) the place where a reference passes a layer."""

    name: str
    columns: list[str] = field(default_factory=list)
    hidden: int = 0
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    span: float = 0.0

    @property
    def passing(self) -> bool:
        return not self.columns and not self.hidden

    @property
    def height(self) -> float:
        return ROW / 2 if self.passing else HEAD + ROW * (len(self.columns) + bool(self.hidden)) + 6

    @property
    def width(self) -> float:
        words = [self.name, *(f"  {column}" for column in self.columns), f"+ {self.hidden} more" if self.hidden else ""]
        return max(len(word) for word in words) * LETTER + 2 * PAD

    def row(self, column: str) -> float:
        """The height of a column's line."""
        return self.y + HEAD + ROW * self.columns.index(column) + ROW / 2 + 2


def relationships_svg(
    columns: Mapping[str, Sequence[str]], keys: Mapping[str, Collection[str]], references: Sequence[Reference]
) -> str:
    """Tables, the columns of their keys (in bold), and references as one SVG picture.

    Examples
    --------
    >>> picture = relationships_svg(
    ...     {"orders": ["id", "customer"], "customers": ["id"]},
    ...     {"customers": ["id"]},
    ...     [Reference("orders", ("customer",), "customers", ("id",), 0.97)],
    ... )
    >>> picture.startswith("<svg"), "97%" in picture
    (True, True)
    """
    boxes = {name: _box(name, names, keys.get(name, ()), references) for name, names in columns.items()}
    _assign_layers(boxes, references)
    routes, passing = _routes(boxes, references)
    everything = [*boxes.values(), *passing]
    _place(everything, routes)
    width = max((box.x + box.width for box in everything), default=0) + MARGIN
    height = max((box.y + box.height for box in everything), default=0) + MARGIN
    if any(boxes[one.table].layer >= boxes[one.ref_table].layer for one in references):
        width += GAP_X / 2
    lines = [_link(route, one) for route, one in zip(routes, references, strict=True)]
    tables = [_drawn(box, keys.get(box.name, ())) for box in boxes.values()]
    title = f"{len(boxes)} tables, {len(references)} references"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}">',
            f"<title>{title}</title>",
            f"<style>{_STYLE}</style>",
            *tables,
            *lines,
            "</svg>",
        ]
    )


def foreign_keys_svg(columns: Mapping[str, Sequence[str]], ranked: Iterable[ForeignKey], least: float = 0.2) -> str:
    """A drawing of the found foreign keys of at least this score; what they refer to is marked as key."""
    chosen = [one for one in ranked if one.score >= least]
    references = [
        Reference(str(body.table), body.columns, body.ref_table, body.ref_columns, one.fit)
        for one in chosen
        for body in (one.found.body,)
    ]
    keys = {name: {c for one in references if one.ref_table == name for c in one.ref_columns} for name in columns}
    return relationships_svg(columns, keys, references)


MOST_MISSING = 1 << 31
"""Values that a partial reference in a drawing may lack: its share is written beside it."""


def discovery_svg(found: Discovery, least: float = 0.2) -> str:
    """A drawing of the inclusions of a discovery that look like foreign keys, the partial ones with their share."""
    likely = [rule.body for rule in found.rules if rule.score >= least]
    whole = [(body, 1.0) for body in likely if isinstance(body, Inclusion)]
    misses = found.near_misses(MOST_MISSING, kinds=("ind",))
    partial = [(miss.body, 1 - miss.error) for miss in misses if isinstance(miss.body, Inclusion)]
    references = [
        Reference(str(body.table), body.columns, body.ref_table, body.ref_columns, fit)
        for body, fit in (*whole, *partial)
    ]
    columns = found.columns()
    keys = {name: {c for one in references if one.ref_table == name for c in one.ref_columns} for name in columns}
    return relationships_svg(columns, keys, references)


def _box(name: str, columns: Sequence[str], key: Collection[str], references: Sequence[Reference]) -> _Box:
    """A box with the columns that keys and references name, in the table's order, and others while there is room."""
    wanted = {c for one in references if one.table == name for c in one.columns}
    wanted |= {c for one in references if one.ref_table == name for c in one.ref_columns} | set(key)
    room = MOST_COLUMNS - sum(column in wanted for column in columns)
    shown = []
    for column in columns:
        if column in wanted or room > 0:
            shown.append(column)
            room -= column not in wanted
    return _Box(name, shown, len(columns) - len(shown))


def _assign_layers(boxes: Mapping[str, _Box], references: Sequence[Reference]) -> None:
    """Put what is referred to right of what refers; references that close a circle are not counted."""
    forward: dict[str, list[str]] = {name: [] for name in boxes}
    for one in references:
        if one.table != one.ref_table and not _reaches(forward, one.ref_table, one.table):
            forward[one.table].append(one.ref_table)
    for _ in boxes:
        for name, targets in forward.items():
            for target in targets:
                boxes[target].layer = max(boxes[target].layer, boxes[name].layer + 1)


def _reaches(forward: Mapping[str, list[str]], start: str, goal: str) -> bool:
    seen, todo = {start}, [start]
    while todo:
        for name in forward[todo.pop()]:
            if name not in seen:
                seen.add(name)
                todo.append(name)
    return goal in seen


def _routes(boxes: Mapping[str, _Box], references: Sequence[Reference]) -> tuple[list[list[_Box]], list[_Box]]:
    """The boxes each reference goes through, with places of their own in the layers between."""
    routes, passing = [], []
    for one in references:
        start, end = boxes[one.table], boxes[one.ref_table]
        between = [_Box("", layer=layer) for layer in range(start.layer + 1, end.layer)]
        passing += between
        routes.append([start, *between, end])
    return routes, passing


def _place(boxes: list[_Box], routes: Sequence[Sequence[_Box]]) -> None:
    """Give every box its place: layers from left to right, in a layer by the mean height of what leads there."""
    x = float(MARGIN)
    tallest = 0.0
    layers: list[list[_Box]] = []
    for number in range(max((box.layer for box in boxes), default=-1) + 1):
        layer = [box for box in boxes if box.layer == number]
        order = {id(box): _mean_source(box, routes, i) for i, box in enumerate(layer)}
        layer.sort(key=lambda box, order=order: order[id(box)])  # type: ignore[misc]
        y = float(MARGIN)
        for box in layer:
            box.x, box.y = x, y
            y += box.height + GAP_Y
        layers.append(layer)
        tallest = max(tallest, y - GAP_Y)
        span = max((box.width for box in layer if not box.passing), default=0.0)
        for box in layer:
            box.span = span
        x += span + GAP_X
    for layer in layers:
        # the shorter layers stand in the middle
        down = (tallest - max((box.y + box.height for box in layer), default=0.0)) / 2
        for box in layer:
            box.y += down


def _mean_source(box: _Box, routes: Sequence[Sequence[_Box]], number: int) -> float:
    steps = [step for route in routes for step in pairwise(route)]
    places = [before.y + before.height / 2 for before, after in steps if after is box]
    return sum(places) / len(places) if places else number * 1e-3


def _drawn(box: _Box, key: Collection[str]) -> str:
    x, y, width = f"{box.x:.1f}", f"{box.y:.1f}", f"{box.width:.1f}"
    top = f"M{x} {box.y + HEAD:.1f}v-{HEAD - 5}q0-5 5-5h{box.width - 10:.1f}q5 0 5 5v{HEAD - 5}z"
    parts = [
        f'<g><rect class="box" x="{x}" y="{y}" width="{width}" height="{box.height:.1f}" rx="5"/>',
        f'<path class="head" d="{top}"/>',
        f'<text class="name" x="{box.x + PAD:.1f}" y="{box.y + 18:.1f}">{escape(box.name)}</text>',
    ]
    for column in box.columns:
        mark = ' class="key"' if column in key else ""
        parts.append(f'<text{mark} x="{box.x + PAD:.1f}" y="{box.row(column) + 4:.1f}">{escape(column)}</text>')
    if box.hidden:
        last = box.y + HEAD + ROW * len(box.columns) + ROW / 2 + 6
        parts.append(f'<text class="more" x="{box.x + PAD:.1f}" y="{last:.1f}">+ {box.hidden} more</text>')
    return "".join([*parts, "</g>"])


def _link(route: Sequence[_Box], one: Reference) -> str:
    """The line of a reference; several columns are gathered by a bracket at both ends."""
    start, end = route[0], route[-1]
    rows = [start.row(column) for column in one.columns]
    targets = [end.row(column) for column in one.ref_columns]
    partial = " partial" if one.share < 1 else ""
    x = start.x + start.width
    back = start.layer >= end.layer
    goal = end.x + end.width if back else end.x
    brackets = _bracket(x, rows, 8) + _bracket(goal, targets, 8 if back else -8)
    at, y = (x + 8 if len(rows) > 1 else x), sum(rows) / len(rows)
    stop, low = (goal + (8 if back else -8) if len(targets) > 1 else goal), sum(targets) / len(targets)
    path = f"M{at:.1f} {y:.1f}"
    if back:
        side = max(at, stop) + GAP_X / 3
        path += f"C{side:.1f} {y:.1f} {side:.1f} {low:.1f} {stop:.1f} {low:.1f}"
    else:
        here, height = at, y
        for box in route[1:-1]:
            middle = box.y + box.height / 2
            path += _curve(here, height, box.x, middle)
            here, height = box.x + box.span, middle
            path += f"L{here:.1f} {height:.1f}"
        path += _curve(here, height, stop, low)
    title = f"{one.table}({', '.join(one.columns)}) in {one.ref_table}({', '.join(one.ref_columns)})"
    label = ""
    if partial:
        label = f'<text class="share" x="{x + 16:.1f}" y="{y - 5:.1f}">{_percent(one.share)}</text>'
    gathered = f'<path class="link{partial} whole" d="{brackets}"/>' if brackets else ""
    return (
        f"<g><title>{escape(title)}: {_percent(one.share)}</title>{gathered}"
        f'<path class="link{partial}" d="{path}"/>'
        f'<circle class="dot{partial}" cx="{stop:.1f}" cy="{low:.1f}" r="3.5"/>{label}</g>'
    )


def _curve(x: float, y: float, to_x: float, to_y: float) -> str:
    middle = (x + to_x) / 2
    return f"C{middle:.1f} {y:.1f} {middle:.1f} {to_y:.1f} {to_x:.1f} {to_y:.1f}"


def _bracket(x: float, rows: Sequence[float], out: float) -> str:
    if len(rows) < 2:
        return ""
    ticks = "".join(f"M{x:.1f} {row:.1f}h{out}" for row in rows)
    return f"{ticks}M{x + out:.1f} {min(rows):.1f}V{max(rows):.1f}"


def _percent(share: float) -> str:
    """A share as people write it; never 100% when something is missing."""
    if share == 1:
        return "100%"
    text = f"{100 * share:.1f}".rstrip("0").rstrip(".")
    return ">99.9%" if text == "100" else f"{text}%"
