"""What rows a site may hold: those with a key of their own, in its fragment and no other."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from holdstrue.data.buffers import plain
from holdstrue.errors import DataError
from holdstrue.fragments.ids import Ids, in_order
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.plan.filter import holds
from holdstrue.rules.terms import condition_columns
from holdstrue.rules.text import condition_text


def own_rows(spec: SiteSpec, rows: pa.Table) -> pa.Table:
    """The rows of a site's source, checked against its key and its filter; text may be by distinct values."""
    for name in spec.key:
        if rows.column(name).null_count:
            raise DataError(
                f"the source of site {spec.name!r} has rows without {name!r}", hint="every row needs its whole key"
            )
    refuse_foreign(spec, rows)
    return rows


def refuse_repeats(spec: SiteSpec, ids: Ids, rows: pa.Table) -> None:
    """Refuse rows of which two have one key."""
    order = in_order(ids)
    ids = ids.take(order)
    same = (ids.lo[1:] == ids.lo[:-1]) & (ids.hi[1:] == ids.hi[:-1])
    if same.any():
        at = int(order[int(np.flatnonzero(same)[0])])
        raise DataError(
            f"site {spec.name!r} got two rows with the key {_key_of(spec, rows, at)}",
            hint="the key must tell rows apart",
        )


def _key_of(spec: SiteSpec, rows: pa.Table, at: int) -> str:
    return ", ".join(f"{name}={rows.column(name)[at].as_py()!r}" for name in spec.key)


def refuse_foreign(spec: SiteSpec, rows: pa.Table) -> None:
    """Refuse rows that the fragment's filter does not select, as far as the site can tell."""
    wanted = (*(() if spec.where is None else (spec.where,)), *spec.elsewhere)
    for number, where in enumerate(wanted):
        if not set(condition_columns(where)) <= set(rows.column_names):
            continue
        held = holds(where, lambda name: plain(rows.column(name)), rows.num_rows)
        wrong = np.flatnonzero(held if number else ~held)
        if wrong.size:
            raise DataError(
                f"row {_key_of(spec, rows, int(wrong[0]))} of site {spec.name!r} is "
                + (f"in the fragment {condition_text(where)!r} too" if number else "not in its fragment"),
                hint="of all filters (where), only the site's own must hold for the rows of its source",
            )
