"""Who holds what of a relation: sites with columns, fragments of rows, both as frozen data (paper 000, Section 2.2)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdstrue.errors import HoldstrueError
from holdstrue.rules.condition import parse_condition
from holdstrue.rules.model import Condition
from holdstrue.rules.text import condition_text

MOST_SITES = 1 << 15
"""Sites are 16-bit numbers on the wire."""


@dataclass(frozen=True)
class Site:
    """A place that holds some columns of some rows, with its own source and its own state.

    Parameters
    ----------
    name
        How messages and the plan call it.
    columns
        The columns it holds beside the key; None for all columns of its source. Columns may be at
        several sites.
    where
        The rows it holds, as a filter; sites with the same filter are one horizontal fragment, split
        by columns. None: all rows.
    source
        Its rows when the relation is first loaded: whatever `holdstrue.sources.read.read_table` reads.
    state
        Its own state directory; None keeps the state in memory.
    read
        Options for reading the source: encoding, format, delimiter, null_values.

    Examples
    --------
    >>> Site("edi", ("street", "zip"), where="grade = 'A'").where_text
    "grade = 'A'"
    """

    name: str
    columns: tuple[str, ...] | None = None
    where: str | Condition | None = None
    source: Any = field(default=None, compare=False, repr=False)
    state: str | os.PathLike[str] | None = None
    read: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def condition(self) -> Condition | None:
        """The filter as data."""
        return parse_condition(self.where) if isinstance(self.where, str) else self.where

    @property
    def where_text(self) -> str:
        """The filter in its printed form; empty for all rows."""
        return "" if self.where is None else condition_text(self.condition)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Fragment:
    """The rows that a filter selects, at one site or split by columns over several."""

    name: str
    where: Condition | None
    sites: tuple[Site, ...]

    def holders(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The sites that hold all of some columns."""
        wanted = set(columns)
        return tuple(site.name for site in self.sites if wanted <= set(site.columns or ()))


@dataclass(frozen=True)
class FragmentLayout:
    """A relation's fragments; every site knows all of its columns, the key among them."""

    key: tuple[str, ...]
    columns: tuple[str, ...]
    fragments: tuple[Fragment, ...]

    @property
    def sites(self) -> tuple[Site, ...]:
        """All sites, fragment by fragment."""
        return tuple(site for fragment in self.fragments for site in fragment.sites)


def layout_of(sites: Sequence[Site], key: Sequence[str]) -> FragmentLayout:
    """Sites put together to fragments: those with the same filter hold columns of the same rows.

    Every fragment must hold every column of the relation.
    """
    if not sites:
        raise HoldstrueError("no sites are given", hint="declare at least one")
    if not key:
        raise HoldstrueError("the relation has no key", hint="name the columns that every site has in common: key: id")
    names = [site.name for site in sites]
    for name in names:
        if not name or names.count(name) > 1:
            raise HoldstrueError(f"{names.count(name)} sites are called {name!r}", hint="give each site its own name")
    if len(sites) > MOST_SITES:
        raise HoldstrueError(f"{len(sites)} sites are too many", hint=f"at most {MOST_SITES}")
    groups: dict[str, list[Site]] = {}
    for site in sites:
        if site.columns is None:
            raise HoldstrueError(f"the columns of site {site.name!r} are not known", hint="name them, or give a source")
        own = tuple(dict.fromkeys((*key, *site.columns)))
        groups.setdefault(site.where_text, []).append(replace(site, columns=own))
    if len(groups) > 1 and "" in groups:
        raise HoldstrueError(
            f"site {groups[''][0].name!r} holds all rows and others hold some",
            hint="give every site its filter (where), or none",
        )
    everything = tuple(dict.fromkeys(column for group in groups.values() for s in group for column in s.columns or ()))
    for text, group in groups.items():
        missing = set(everything) - {column for site in group for column in site.columns or ()}
        if missing:
            raise HoldstrueError(
                f"no site of the fragment {text or 'of all rows'!r} holds column {min(missing)!r}",
                hint="the sites with one filter must together hold every column",
            )
    fragments = tuple(Fragment(text or "all", group[0].condition, tuple(group)) for text, group in groups.items())
    return FragmentLayout(tuple(key), everything, fragments)
