"""One batch at one site: its entries, which CFDs they may matter to, and ids put together as the plan says.

An entry is a row that the batch removes, brings or replaces. All sites of a fragment see the same entries in
the same order, so that on the wire a row is its number. Rows travel as ids only, and only those
that can still matter to a CFD that needs them (the paper's "rows must match the pattern").
"""

from __future__ import annotations

import hashlib
from functools import cached_property

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdstrue.data.buffers import known
from holdstrue.fragments.channel import Mailbox, MessageColumns, SiteMessage
from holdstrue.fragments.ids import Ids, column_ids
from holdstrue.fragments.normal_cfds import GUARD, NormalCFD
from holdstrue.fragments.packed_values import laid_out
from holdstrue.fragments.shipping_plan import Shipment
from holdstrue.fragments.site_spec import SiteSpec
from holdstrue.index.arrays import all_true
from holdstrue.plan.filter import holds
from holdstrue.rules.model import Condition
from holdstrue.typing import I32, Mask


class SiteBatch:
    """The entries of a batch at a site.

    Parameters
    ----------
    rows
        By entry its new image; only the key counts where there is none.
    now
        Whether the entry has a new image.
    old
        By entry the slot of its old image, -1 where there is none.
    old_rows
        The old images of entries that have one, when the ids of removed rows are shipped too (as in the
        paper); None when homes recall the classes of removed rows themselves.
    mail
        Where messages go out and come in, where several portions of a first load share it; their rows are packed.
    portion
        The number of the portion.
    """

    def __init__(
        self, spec: SiteSpec, batch: str, ids: Ids, rows: pa.Table, now: Mask, old: I32, old_rows: pa.Table | None,
        *, mail: Mailbox | None = None, portion: int = 0,
    ) -> None:  # fmt: skip
        self.spec = spec
        self.name = batch
        self.ids = ids
        self.rows = rows
        self.now = now
        self.old = old
        self.size = now.size
        self.mail = Mailbox(spec.name, batch) if mail is None else mail
        self._packed = mail is not None
        self._first = portion * spec.shipment_count
        """What shipments of the portion are about begins here."""
        self._exists = now
        self._images = rows
        if old_rows is not None:
            # old images follow the new ones: the k-th entry that has one is number size + k as it was
            images = [rows.select(spec.schema.names), old_rows.select(spec.schema.names)]
            self._images = pa.concat_tables(images, promote_options="permissive")
            self._exists = np.concatenate((now, all_true(old_rows.num_rows)))
        self._columns: dict[str, pa.Array] = {}
        self._ids: dict[str, Ids] = {}
        self._guards: dict[str, Mask] = {}
        self._match: dict[int, Mask] = {}
        self._matches: dict[tuple[tuple[str, ...], frozenset[str]], Mask] = {}
        self._both: dict[tuple[int, ...], tuple[Mask, tuple[Mask, ...]]] = {}
        self._got: dict[int, Ids] = {}
        self._sums: dict[tuple[int, ...], Ids] = {}
        self._put: dict[tuple[tuple[str, ...], tuple[int, ...]], Ids] = {}
        self._done: set[int] = set()

    @property
    def images(self) -> int:
        """New images, and old ones where these are shipped."""
        return int(self._exists.size)

    @cached_property
    def fingerprint(self) -> str:
        """Equal at all sites that have the same entries in the same order."""
        return fingerprint_of(self.ids, self.now, self.old >= 0)

    # --- what the site itself knows -------------------------------------------------------------------

    def column(self, name: str) -> pa.Array:
        """A column of all images."""
        if name not in self._columns:
            column = self._images.column(name)
            if self._packed:
                self._columns[name] = laid_out(column, self.spec.schema.field(name).type)
                return self._columns[name]
            self._columns[name] = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        return self._columns[name]

    def _attr_ids(self, attr: str) -> Ids:
        """Ids of one attribute; those of images without a value do not count."""
        if attr not in self._ids:
            coded = self._images.column(attr)
            # what is read by its distinct values is digested by them
            column = coded.chunk(0) if self._packed and _repeats(coded) else self.column(attr)
            equal = self.spec.nulls_equal
            self._ids[attr] = column_ids(column, self.spec.domains[attr], attr, nulls_equal=equal)
        return self._ids[attr]

    def _holds(self, text: str, condition: Condition) -> Mask:
        if text not in self._guards:
            self._guards[text] = holds(condition, self.column, self.images)
        return self._guards[text]

    def match(self, cfd: NormalCFD) -> Mask:
        """Which images may matter to a CFD, as far as is known here by now; never written to.

        CFDs that ask the same of rows share one array.
        """
        if cfd.number not in self._match:
            asked = self.spec.asked[cfd.number]
            missing = asked.known & self._lacking
            if (asked.texts, missing) not in self._matches:
                masks = [self._holds(text, guard) for text, guard in asked.tests]
                masks += [self._knows(name) for name in missing]
                self._matches[asked.texts, missing] = self._all(self._exists, *masks)
            self._match[cfd.number] = self._matches[asked.texts, missing]
        return self._match[cfd.number]

    @cached_property
    def _lacking(self) -> frozenset[str]:
        """The columns that an image has no value of; of rows that are removed only the key is told."""
        names = frozenset[str]().union(*(asked.known for asked in self.spec.asked.values()))
        return frozenset(name for name in names if self._lacks(name))

    def _lacks(self, name: str) -> bool:
        return bool(self.column(name).null_count) and bool((self._exists & ~self._knows(name)).any())

    def _knows(self, name: str) -> Mask:
        """Which images have a value."""
        text = f"{name} is known"
        if text not in self._guards:
            self._guards[text] = known(self.column(name))
        return self._guards[text]

    def _all(self, *masks: Mask) -> Mask:
        """Where all of some masks are true; asked again for the same ones, the same array."""
        distinct = {id(mask): mask for mask in masks}
        key = tuple(sorted(distinct))
        if key not in self._both:
            both = np.logical_and.reduce([*distinct.values()]) if len(distinct) > 1 else masks[0]
            # the parts are kept beside it, so that what is told apart by its place in memory stays there
            self._both[key] = (both, tuple(distinct.values()))
        return self._both[key][0]

    # --- shipments ----------------------------------------------------------------------------------

    def ship(self, level: int) -> list[SiteMessage]:
        """The site's shipments of one round; those of no row are not sent."""
        sent = []
        for shipment in self.spec.shipments:
            if shipment.source != self.spec.name or shipment.level != level:
                continue
            self._take_in(level)
            masks = [self.match(self.spec.cfds[a]) for a in shipment.cfds]
            distinct = {id(mask): mask for mask in masks}
            rows = np.flatnonzero(np.logical_or.reduce([*distinct.values()]))
            if not rows.size:
                continue
            picked = {at: mask[rows] if rows.size < mask.size else mask for at, mask in distinct.items()}
            arrays: MessageColumns = {"row": rows.astype(np.uint32), "masks": [picked[id(mask)] for mask in masks]}
            if shipment.attrs:
                ids = self.put_together(shipment.own, shipment.received).take(rows)
                arrays |= {"hi": ids.hi, "lo": ids.lo}
            kind = "ids" if shipment.attrs else "rows"
            sent.append(self.mail.send(shipment.target, kind, arrays, self._first + shipment.number))
        return sent

    def _take_in(self, level: int) -> None:
        """Narrow down what matters by the shipments that came before a round."""
        for shipment in self.spec.shipments:
            if shipment.target == self.spec.name and shipment.level < level and shipment.number not in self._done:
                self._done.add(shipment.number)
                self._take(shipment)

    def _take(self, shipment: Shipment) -> None:
        ids = Ids.zeros(self.images)
        came = [np.zeros(self.images, dtype=np.bool_)] * len(shipment.cfds)
        # a shipment is one message
        for got in self.mail.take("ids" if shipment.attrs else "rows", self._first + shipment.number):
            arrays = got.arrays()
            rows = arrays["row"]
            everything = rows.size == self.images
            if shipment.attrs and everything:
                ids = Ids(arrays["hi"], arrays["lo"])
            elif shipment.attrs:
                ids.hi[rows], ids.lo[rows] = arrays["hi"], arrays["lo"]
            spread = {}
            for mask in arrays["masks"]:
                if id(mask) not in spread:
                    spread[id(mask)] = mask if everything else _spread(mask, rows, self.images)
            came = [spread[id(mask)] for mask in arrays["masks"]]
        self._got[shipment.number] = ids
        for cfd, mask in zip(shipment.cfds, came, strict=True):
            self._match[cfd] = self._all(self.match(self.spec.cfds[cfd]), mask)

    def put_together(self, own: tuple[str, ...], received: tuple[int, ...]) -> Ids:
        """The ids of a set, from the site's own columns and from shipments."""
        if (own, received) not in self._put:
            self._put[own, received] = self._put_together(own, received)
        return self._put[own, received]

    def _put_together(self, own: tuple[str, ...], received: tuple[int, ...]) -> Ids:
        parts = [self._attr_ids(attr) for attr in own if not attr.startswith(GUARD)]
        parts += [self._got[number] for number in received]
        if not parts:
            return Ids.zeros(self.images)
        # CFDs that differ only in their patterns share one array
        key = tuple(id(part) for part in parts)
        if key not in self._sums:
            self._sums[key] = sum(parts[1:], start=parts[0])
        return self._sums[key]

    def forget(self) -> None:
        """Let go of what was worked out on the way, once the indexes have what they need."""
        known = (self._columns, self._ids, self._guards, self._match, self._both, self._got, self._sums, self._put)
        for cache in (*known, self._matches):
            cache.clear()

    def arrived(self, cfd: NormalCFD) -> tuple[Ids, Ids, Mask]:
        """At the home of a CFD, after all rounds: ids of left and right side, and which images match."""
        self._take_in(self.spec.levels)
        home = self.spec.home(cfd)
        match = self.match(cfd)
        if cfd.is_constant:
            return Ids.zeros(self.images), Ids.zeros(self.images), match
        x = self.put_together(home.x_own, home.x_received)
        b = self.put_together((cfd.b,) if home.b_own else (), home.b_received)
        return x, b, match


def fingerprint_of(ids: Ids, now: Mask, was: Mask) -> str:
    """Equal where entries are the same in the same order."""
    told = hashlib.blake2b(ids.hi.tobytes(), digest_size=16)
    for part in (ids.lo, now, was):
        told.update(part.tobytes())
    return told.hexdigest()


def _repeats(column: pa.ChunkedArray) -> bool:
    """Whether a column is one of few distinct values, all of them known."""
    if not pa.types.is_dictionary(column.type) or column.num_chunks != 1 or column.null_count:
        return False
    coded = column.chunk(0)
    return len(coded.dictionary) <= len(coded) and not coded.dictionary.null_count


def _spread(mask: Mask, rows: NDArray[np.uint32], size: int) -> Mask:
    found = np.zeros(size, dtype=np.bool_)
    found[rows] = mask
    return found
