"""The columns of sites and their types, before anything is loaded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.fragment_layout import FragmentLayout, Site
from holdstrue.fragments.site_state import SiteState
from holdstrue.sources.read import schema_of


def site_schema(site: Site, given: pa.Schema | Mapping[str, pa.Schema] | None) -> pa.Schema:
    """The columns of a site: as they are given, as its state or its source has them."""
    if isinstance(given, Mapping):
        return given[site.name]
    if site.state is not None and SiteState.exists(site.state):
        return SiteState.declared(site.state)
    if site.source is not None:
        return schema_of(site.source, **{name: value for name, value in site.read.items() if name != "null_values"})
    if given is not None:
        return given
    raise HoldstrueError(
        f"the types of the columns of site {site.name!r} are not known", hint="give a source or schema="
    )


def widest(types: Sequence[pa.DataType]) -> pa.DataType:
    """A type that holds the values of all sites, which are known to compare."""
    try:
        schemas = [pa.schema([("column", data_type)]) for data_type in types]
        return pa.unify_schemas(schemas, promote_options="permissive").field(0).type
    except pa.ArrowException:
        return types[0]


def column_types(layout: FragmentLayout, schemas: Mapping[str, pa.Schema]) -> dict[str, list[pa.DataType]]:
    """By column its types at the sites that hold it."""
    found: dict[str, list[pa.DataType]] = {}
    for site in layout.sites:
        for name in site.columns or ():
            if name not in schemas[site.name].names:
                raise HoldstrueError(
                    f"site {site.name!r} has no column {name!r}",
                    hint=f"its columns are {', '.join(schemas[site.name].names)}",
                )
            found.setdefault(name, []).append(schemas[site.name].field(name).type)
    return found
