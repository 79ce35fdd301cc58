"""Keys, FDs and conditional FDs as kinds of a discovery."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from holdstrue.discovery.dependencies.core import DependencyCore
from holdstrue.discovery.dependencies.core import Options as CoreOptions
from holdstrue.discovery.found import Found
from holdstrue.discovery.kind import Miss, Work, shown_table
from holdstrue.discovery.options import Options
from holdstrue.discovery.per_table import PerTable


class DependencyKind(PerTable[DependencyCore]):
    """Minimal keys and FDs."""

    @classmethod
    def core_of(cls, table: pa.Table, options: Options, work: Work) -> DependencyCore:
        """Search one table."""
        return DependencyCore.load(table, _core_options(options), deadline=work.deadline, progress=work.progress)

    @classmethod
    def restored(cls, schema: pa.Schema, options: Options, arrays: Any) -> DependencyCore:
        """The core of one table as it was left."""
        return DependencyCore.restore(schema, _core_options(options), arrays)

    def found(self) -> list[Found]:
        """The rules now."""
        return [
            Found(body, 0.5, {}, shown_table(self.held, name))
            for name, core in self.cores.items()
            for body in core.bodies()
            if self.held.speaks_of_values(name, body)
        ]

    def near(self, most: int) -> list[Miss]:
        """Rules that a few rows break."""
        return []

    def explain(self) -> str:
        """How the rules are kept."""
        return "partitions and sampled agree sets, validated; kept by witnesses of what does not hold"


def _core_options(options: Options) -> CoreOptions:
    kinds = tuple(kind for kind in ("fd", "key") if kind in options.kinds)
    return CoreOptions(kinds, options.nulls, options.max_predicates, options.threads)
