"""A plan as a drawing: sites side by side with their columns and indexes, shipments as arrows, round by round."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from holdstrue.fragments.shipping_plan import FragmentPlan, ShippingPlan

WIDTH, LINE, GAP, MARGIN = 210, 16, 40, 24
"""Pixels: a site's box, a line of text, between boxes, around all."""
LONGEST = 30
"""Characters of a line in a box."""
_STYLE = (
    "text{font:12px sans-serif;fill:#1f2933}.n{font-weight:bold}.i{fill:#0b5c8a}.s{fill:#52606d}"
    ".b{fill:#f5f7fa;stroke:#7b8794}.l{stroke:#cbd2d9;stroke-dasharray:3 3}.a{stroke:#0b5c8a;fill:none}"
    ".r{stroke:#b44d12;fill:none;stroke-dasharray:5 3}"
)


def plan_svg(plan: ShippingPlan) -> str:
    """The drawing as one SVG document.

    A box is a site: its name, its columns, and in blue the CFDs whose index it keeps. An arrow is a shipment of
    ids, with the attribute set above it; a dashed one is of row numbers for constant CFDs. Fragments are drawn
    one below the other.
    """
    parts: list[str] = []
    top, width = MARGIN, 0
    for number, part in enumerate(plan.fragments):
        drawn = _Fragment(plan, number, part, top)
        parts += drawn.parts()
        top, width = drawn.bottom + GAP, max(width, drawn.width)
    size = f'width="{width}" height="{top}" viewBox="0 0 {width} {top}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">'
    arrow = (
        '<defs><marker id="h" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#3e4c59"/></marker></defs>'
    )
    return "\n".join([head, f"<style>{_STYLE}</style>", arrow, *parts, "</svg>"]) + "\n"


class _Fragment:
    """One fragment's part of the drawing."""

    def __init__(self, plan: ShippingPlan, number: int, part: FragmentPlan, top: int) -> None:
        self._part = part
        self._left = {site: MARGIN + i * (WIDTH + GAP) for i, site in enumerate(part.columns)}
        self._lines = {site: self._box_lines(plan, number, site, columns) for site, columns in part.columns.items()}
        self._title = f"{part.fragment}: {part.ids} id{'s' * (part.ids != 1)} a changed row"
        self._top = top
        self._boxes = top + LINE + 8
        self._arrows = self._boxes + LINE * (max(len(lines) for lines in self._lines.values()) + 1) + 8
        self.bottom = self._arrows + (LINE + 14) * len(part.shipments) + 8
        self.width = 2 * MARGIN + len(self._left) * (WIDTH + GAP) - GAP

    def _box_lines(self, plan: ShippingPlan, number: int, site: str, columns: tuple[str, ...]) -> list[tuple[str, str]]:
        lines = [("n", site), ("s", ", ".join(columns))]
        for home in self._part.homes:
            if home.site == site:
                others = len(plan.peers(number, home.cfd))
                lines.append(("i", plan.names[home.cfd] + (f" (+{others})" if others else "")))
        return lines

    def parts(self) -> Iterator[str]:
        """Elements, back to front."""
        yield _text(MARGIN, self._top + LINE - 4, self._title, "n")
        for site, left in self._left.items():
            lines = self._lines[site]
            middle = left + WIDTH // 2
            yield f'<line class="l" x1="{middle}" y1="{self._boxes}" x2="{middle}" y2="{self.bottom}"/>'
            height = LINE * len(lines) + 10
            yield f'<rect class="b" x="{left}" y="{self._boxes}" width="{WIDTH}" height="{height}" rx="6"/>'
            for i, (kind, text) in enumerate(lines):
                yield _text(left + 8, self._boxes + LINE * (i + 1), text, kind)
        at = self._arrows + LINE
        for shipment in sorted(self._part.shipments, key=lambda s: s.level):
            start, end = (self._left[name] + WIDTH // 2 for name in (shipment.source, shipment.target))
            kind = "a" if shipment.attrs else "r"
            yield f'<path class="{kind}" d="M{start} {at}H{end}" marker-end="url(#h)"/>'
            label = f"{shipment.what} (round {shipment.level + 1})"
            yield _text(min(start, end) + 8, at - 4, label, "s", abs(end - start) // 6)
            at += LINE + 14


def _text(x: int, y: int, text: str, kind: str, most: int = LONGEST) -> str:
    most = max(most, LONGEST)
    shown = text if len(text) <= most else text[: most - 1] + "…"
    return f'<text class="{kind}" x="{x}" y="{y}"><title>{escape(text)}</title>{escape(shown)}</text>'
