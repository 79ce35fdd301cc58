"""Which comparisons make up the predicate space of a table: by the types of its columns and the values they share."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Collection, Sequence

import numpy as np
import pyarrow as pa

from holdstrue.data.coding import Domain, domain_of, encode
from holdstrue.data.labels import Labels
from holdstrue.data.values import CATEGORIES, CLOCKS, family_of, plain_type
from holdstrue.discovery.denials.space import ComparedColumns, Space
from holdstrue.discovery.options import DiscoveryOptions, Proportion, exact
from holdstrue.errors import DataError
from holdstrue.typing import I64

_CHUNK = 1 << 14
"""Distinct values taken into one matrix product. Chosen, not tuned."""


def choose_space(
    table: pa.Table,
    options: DiscoveryOptions,
    *,
    columns: Sequence[str] | None = None,
    both_ways: bool = False,
    order_text: bool = False,
    empty: bool = False,
    sharing: Callable[[list[str]], list[tuple[str, str]]] | None = None,
) -> Space:
    """The predicate space of a table. It stays as it was chosen when the table changes later.

    Parameters
    ----------
    columns
        The columns to look at; None for all that hold plain values: lists, structs and maps do not compare.
    both_ways
        Whether t.A is compared with s.B as well as t.B with s.A. By default one of them is: rules on a
        single comparison across columns are the same either way.
    order_text
        Whether text is also compared by order.
    empty
        Whether columns without any value are compared too: values may come later.
    sharing
        Says which of some columns share enough values, where the rows are elsewhere and the table is empty.

    Complexity: O(values log values), and O(columns^2) a distinct value that several columns share.

    Raises
    ------
    DataError
        When a wanted column is missing or does not compare, or none is left.

    Examples
    --------
    >>> table = pa.table({"a": [1, 2, 3], "b": [2, 3, 4], "c": ["x", "y", None]})
    >>> space = choose_space(table, DiscoveryOptions())
    >>> [(space.columns[c.left], space.columns[c.right], c.ordered) for c in space.comparisons]
    [('a', 'a', True), ('b', 'b', True), ('c', 'c', False), ('a', 'b', True)]
    """
    names = _wanted(table, columns, empty)
    domains, kin = _domains(table.schema, names, options, names if order_text else ())
    ordered = {name: domains[name].kind != "digest" and domains[name].family != "bool" for name in names}
    place = {name: i for i, name in enumerate(names)}
    comparisons = [ComparedColumns(i, i, ordered[name]) for i, name in enumerate(names)]
    if options.cross:
        for members in kin:
            alike = sharing(members) if sharing else _sharing(table, members, domains[members[0]], options.shared)
            for one, other in alike:
                left, right = sorted((place[one], place[other]))
                comparisons.append(ComparedColumns(left, right, ordered[one]))
                if both_ways:
                    comparisons.append(ComparedColumns(right, left, ordered[one]))
    return Space(tuple(names), tuple(domains[name] for name in names), tuple(comparisons), options.nulls)


def space_from(schema: pa.Schema, names: list[str], comparisons: I64, options: DiscoveryOptions) -> Space:
    """The space that was chosen before, from its columns and comparisons (left, right, ordered).

    A ValueError says why it cannot have been.
    """
    if len(set(names)) < len(names) or not {*names} <= {*schema.names}:
        raise ValueError(f"the table has no columns {', '.join(names)}")
    places = comparisons[:, :2]
    if not ((places >= 0) & (places < len(names))).all() or not np.isin(comparisons[:, 2], (0, 1)).all():
        raise ValueError("a column is compared that is not")
    if np.unique(places, axis=0).shape[0] < places.shape[0]:
        raise ValueError("two columns are compared twice")
    for name in names:
        if family_of(schema.field(name).type) is None:
            raise ValueError(f"the values of {name!r} do not compare")
    kin = [_kin(schema.field(name).type) for name in names]
    if any(kin[left] != kin[right] for left, right in places.tolist()):
        raise ValueError("columns of other types are compared")
    ordered_names = [names[left] for left, _, ordered in comparisons.tolist() if ordered]
    domains, _ = _domains(schema, names, options, ordered_names)
    chosen = tuple(ComparedColumns(int(left), int(right), bool(ordered)) for left, right, ordered in comparisons)
    return Space(tuple(names), tuple(domains[name] for name in names), chosen, options.nulls)


def _domains(
    schema: pa.Schema, names: list[str], options: DiscoveryOptions, ordered_names: Collection[str]
) -> tuple[dict[str, Domain], list[list[str]]]:
    """How each column is coded (text by order only where it is named), and the columns whose types agree."""
    kin: dict[tuple[object, ...], list[str]] = {}
    for name in names:
        kin.setdefault(_kin(schema.field(name).type), []).append(name)
    domains: dict[str, Domain] = {}
    for members in kin.values():
        ordered = members[0] in ordered_names or family_of(schema.field(members[0]).type) not in CATEGORIES
        domain = domain_of([schema.field(name).type for name in members], ordered=ordered, seed=options.seed)
        assert domain is not None
        domains |= dict.fromkeys(members, domain)
    return domains, list(kin.values())


def _wanted(table: pa.Table, columns: Sequence[str] | None, empty: bool) -> list[str]:
    schema = table.schema
    times = Counter(schema.names)
    for name in columns or schema.names:
        if times[name] > 1:
            raise DataError(f"the table has several columns called {name!r}", hint="rename one of them")
    if columns is None:
        names = [name for name in schema.names if family_of(schema.field(name).type) not in (None, "null")]
    else:
        names = list(dict.fromkeys(columns))
        for name in names:
            if name not in schema.names:
                near = difflib.get_close_matches(name, schema.names, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"the columns are {', '.join(schema.names)}"
                raise DataError(f"no column {name!r} to discover rules on", hint=hint)
            if family_of(schema.field(name).type) is None:
                raise DataError(
                    f"column {name!r} holds {schema.field(name).type} values, which do not compare",
                    hint="leave the column out, or flatten it into plain columns",
                )
    if table.num_rows and not empty:
        names = [name for name in names if table[name].null_count < table.num_rows]
    if not names:
        raise DataError("no column holds plain values to compare", hint="name other columns")
    return names


def _kin(data_type: pa.DataType) -> tuple[object, ...]:
    """Types that agree have the same kin: a common code holds all values of all of them."""
    plain = plain_type(data_type)
    family = family_of(plain)
    if family == "decimal":
        return family, plain.precision, plain.scale
    if family == "integer":
        # integers with and without a sign share no order of 64 bits
        return family, pa.types.is_uint64(plain)
    # the finest unit does not reach as far as others
    return (family, plain.unit) if family in CLOCKS else (family,)


def _sharing(table: pa.Table, names: list[str], domain: Domain, share: Proportion) -> list[tuple[str, str]]:
    """Pairs of columns with at least this share of common values: sum of minima over sum of maxima of counts."""
    if len(names) < 2 or not table.num_rows:
        return []
    labels = Labels(domain.family) if domain.kind == "label" else None
    values, counts, owners = [], [], []
    for i, name in enumerate(names):
        coded = encode(table[name], domain, name=name, labels=labels)
        codes = coded.identity if coded.valid is None else coded.identity[coded.valid]
        distinct, times = np.unique(codes, return_counts=True)
        values.append(distinct)
        counts.append(times.astype(np.int64))
        owners.append(np.full(distinct.size, i, dtype=np.int64))
    minima, totals = _overlaps(np.concatenate(values), np.concatenate(counts), np.concatenate(owners), len(names))
    least = exact(share)
    maxima = totals[:, None] + totals[None, :] - minima
    return [
        (names[i], names[j])
        for i in range(len(names))
        for j in range(i + 1, len(names))
        if maxima[i, j] and minima[i, j] >= least * int(maxima[i, j])
    ]


def _overlaps(values: I64, counts: I64, owners: I64, columns: int) -> tuple[I64, I64]:
    """For each two columns the sum over values of the smaller count; and each column's number of values."""
    totals = np.bincount(owners, weights=counts, minlength=columns).astype(np.int64)
    _, place, sizes = np.unique(values, return_inverse=True, return_counts=True)
    minima = np.zeros((columns, columns), dtype=np.int64)
    common = np.flatnonzero(sizes > 1)
    row = np.full(sizes.size, -1, dtype=np.int64)
    row[common] = np.arange(common.size)
    kept = row[place] >= 0
    rows, owners, counts = row[place][kept], owners[kept], counts[kept]
    for start in range(0, common.size, _CHUNK):
        inside = (rows >= start) & (rows < start + _CHUNK)
        matrix = np.zeros((min(_CHUNK, common.size - start), columns), dtype=np.int64)
        np.add.at(matrix, (rows[inside] - start, owners[inside]), counts[inside])
        for i in range(columns):
            minima[i, i + 1 :] += np.minimum(matrix[:, i + 1 :], matrix[:, i : i + 1]).sum(axis=0)
    return minima, totals
