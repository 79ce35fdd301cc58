"""The drawing of tables and references: well-formed, complete, and readable in circles and with odd names."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.foreign_keys import foreign_keys
from holdstrue.discovery.inclusions.inclusion_core import InclusionCore
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.report.relationships import MOST_COLUMNS, Reference, foreign_keys_svg, relationships_svg

SPACE = {"svg": "http://www.w3.org/2000/svg"}


def parsed(picture: str) -> ET.Element:
    return ET.fromstring(picture)


def words(root: ET.Element) -> list[str]:
    return [str(text.text) for text in root.findall(".//svg:text", SPACE)]


def boxes(root: ET.Element) -> list[tuple[float, float, float, float]]:
    rects = root.findall(".//svg:rect", SPACE)
    return [tuple(float(rect.attrib[name]) for name in ("x", "y", "width", "height")) for rect in rects]  # type: ignore[misc]


def test_tables_columns_and_references() -> None:
    root = parsed(
        relationships_svg(
            {"orders": ["id", "customer", "shop"], "customers": ["id", "name"], "shops": ["no"]},
            {"customers": ["id"], "shops": ["no"]},
            [
                Reference("orders", ("customer",), "customers", ("id",)),
                Reference("orders", ("shop",), "shops", ("no",), 0.9996),
            ],
        )
    )
    assert words(root) == ["orders", "id", "customer", "shop", "customers", "id", "name", "shops", "no", ">99.9%"]
    assert len(root.findall(".//svg:circle", SPACE)) == 2
    bold = [text.text for text in root.findall(".//svg:text[@class='key']", SPACE)]
    assert bold == ["id", "no"]
    (orders, customers, shops) = boxes(root)
    assert orders[0] + orders[2] < customers[0] == shops[0]
    assert customers[1] + customers[3] < shops[1]


def test_boxes_do_not_overlap_and_lie_in_the_picture() -> None:
    names = [f"t{i}" for i in range(9)]
    references = [Reference(a, ("x",), b, ("y",)) for i, a in enumerate(names) for b in names[i + 1 :: 3]]
    root = parsed(relationships_svg({name: ["x", "y"] for name in names}, {}, references))
    found = boxes(root)
    assert len(found) == 9
    for i, (x, y, w, h) in enumerate(found):
        assert x >= 0 and y >= 0 and x + w <= float(root.attrib["width"]) and y + h <= float(root.attrib["height"])
        for x2, y2, w2, h2 in found[i + 1 :]:
            assert x + w < x2 or x2 + w2 < x or y + h < y2 or y2 + h2 < y


def test_circles_and_references_to_the_own_table() -> None:
    root = parsed(
        relationships_svg(
            {"a": ["id", "b", "parent"], "b": ["id", "a"]},
            {},
            [
                Reference("a", ("b",), "b", ("id",)),
                Reference("b", ("a",), "a", ("id",)),
                Reference("a", ("parent",), "a", ("id",), 0.5),
            ],
        )
    )
    assert len(root.findall(".//svg:circle", SPACE)) == 3 and "50%" in words(root)


def test_names_are_escaped_and_long_tables_shortened() -> None:
    columns = [f"c{i}" for i in range(40)]
    root = parsed(relationships_svg({"a<&>": [*columns, "k&"]}, {"a<&>": ["k&"]}, []))
    assert words(root) == ["a<&>", *columns[: MOST_COLUMNS - 1], "k&", f"+ {41 - MOST_COLUMNS} more"]


def test_nothing_to_draw() -> None:
    assert boxes(parsed(relationships_svg({}, {}, []))) == []


def test_found_foreign_keys() -> None:
    tables = {
        "visits": pa.table({"day": [1, 1, 2], "hour": [1, 2, 9], "n": [5, 6, 7]}),
        "slots": pa.table({"day": [1, 1, 2, 2], "hour": [1, 2, 1, 2]}),
    }
    ranked = foreign_keys(InclusionCore.load(tables, DiscoveryOptions(arity=2, error=0.5)), tables)
    picture = foreign_keys_svg({name: table.column_names for name, table in tables.items()}, ranked)
    assert "visits(day, hour) in slots(day, hour)" in picture
    assert "66.7%" in words(parsed(picture))
    with pytest.raises(KeyError):
        foreign_keys_svg({}, ranked)
