"""Curves hold every point that was measured."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from curves import drawn, series


def record(rows: int, changes: int, cfds: int = 50, sites: int = 10) -> dict[str, Any]:
    figures = [{"elapsed_ms": float(changes)}, {"elapsed_ms": float(rows)}]
    asked = {"shape": "vertical", "rows": rows, "changes": changes, "cfds": cfds, "sites": sites}
    return {**asked, "figures": figures, "agrees": True}


RECORDS = [
    record(200, 2), record(500, 2), record(2000, 2),
    record(500, 5), record(500, 50),
    record(500, 5, cfds=25), record(500, 5, cfds=125),
    record(100, 1, sites=2), record(500, 5),
    record(500, 7) | {"agrees": False},
]  # fmt: skip


def test_points_are_told_apart_by_what_grows() -> None:
    found = series(RECORDS, "vertical")
    assert {name: [x for x, _ in lines["batch"]] for name, lines in found.items()} == {
        "rows": [200, 500, 2000], "changes": [2, 5, 50], "cfds": [25, 50, 125], "sites": [2, 10],
    }  # fmt: skip
    assert found["changes"]["incremental"] == [(2, 2.0), (5, 5.0), (50, 50.0)]


def test_the_picture_is_svg_with_a_dot_a_point() -> None:
    picture = ElementTree.fromstring(drawn(RECORDS, "vertical"))
    assert len(picture.findall("{http://www.w3.org/2000/svg}circle")) == 2 * (3 + 3 + 3 + 2)
