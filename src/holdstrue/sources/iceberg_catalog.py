"""Iceberg tables by their name in a catalog that pyiceberg knows (`.pyiceberg.yaml`, PYICEBERG_CATALOG__...)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from holdstrue.errors import DataError
from holdstrue.sources.databases.relation import SqlRelation, no_table, split_name
from holdstrue.sources.lakehouse import LakeTable, shown_error


def opened(text: str, _: str | None) -> CatalogTable:
    """The table that `iceberg:CATALOG.DATABASE.TABLE` names."""
    name = re.sub(r"^[A-Za-z]+:(//)?", "", text)
    parts = split_name(name)
    if parts is None or len(parts) < 3:
        raise DataError(f"{text!r} names no table of a catalog", hint="write iceberg:CATALOG.DATABASE.TABLE")
    table = CatalogTable(name, "iceberg", None, parts)
    table.iceberg()
    return table


@dataclass(frozen=True)
class CatalogTable(LakeTable):
    """A table that its catalog finds."""

    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"iceberg:{'.'.join(self.parts)}"

    @cached_property
    def _iceberg(self) -> Any:
        try:
            from pyiceberg.catalog import load_catalog
            from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
        except ImportError as error:
            raise self._not_installed("pyiceberg", "iceberg") from error
        try:
            catalog = load_catalog(self.parts[0])
            try:
                return catalog.load_table(self.parts[1:])
            except (NoSuchTableError, NoSuchNamespaceError):
                spaces = catalog.list_namespaces()
                there = [".".join(name) for space in spaces for name in catalog.list_tables(space)]
                relation = SqlRelation(self.parts[1:])
        except Exception as error:
            raise DataError(
                f"the catalog {self.parts[0]!r} of Iceberg does not answer: {shown_error(error)}",
                hint=f"tell pyiceberg where it is: PYICEBERG_CATALOG__{self.parts[0].upper()}__URI, or .pyiceberg.yaml",
            ) from error
        raise no_table(relation, f"the catalog {self.parts[0]!r}", there)
