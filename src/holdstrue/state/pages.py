"""Pages: immutable runs that list shards, so that a state of thousands writes what changed and not the whole list.

What a version says of its shards (their files, rows and counts, a kilobyte each) lies in its entry while they are few.
Of more than a thousand the entry holds those that changed last, and names pages that hold the others. A later page goes
before an earlier one, and the entry before all of them. When an entry would hold too many, they become a page, which
takes in the pages before it that are not much larger: so there are O(log shards) pages, and what is said of a shard is
written O(log shards) times at most before it changes again.

>>> listed({"3": {"rows": 1}}).to_pydict()
{'shard': [3], 'said': ['{"rows":1}']}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa

from holdstrue.data.validity import same_columns
from holdstrue.state.entry import plain_data
from holdstrue.state.manifest import RunFile, shard_problems

KIND = "page"
"""Starts the names of pages."""
PAGED_FROM = 1000
"""States of fewer shards have none: their list takes a megabyte at most."""
INLINE_SHARDS = 128
"""Shards that an entry of a paged state holds at most: some 140 KB of JSON. Chosen, not tuned."""
_TIMES = 2
"""A new page takes in the last one before it while that holds at most so many times as many shards."""
_SCHEMA = pa.schema({"shard": pa.int32(), "said": pa.large_string()})

Shards: TypeAlias = Mapping[str, Any]
"""By number what is said of a shard."""


@dataclass(frozen=True)
class Page:
    """A page that was read."""

    file: RunFile
    shards: Shards


@dataclass(frozen=True)
class Division:
    """Shards as a version is to say them: in its entry, and in pages."""

    inline: Shards
    kept: tuple[Page, ...]
    """Pages that are there already and stay."""
    new: Shards | None = None
    """What a new page is to hold, after those."""


def divided(shards: Shards, pages: Sequence[Page]) -> Division:
    """What to write of all shards where these pages are there. Complexity: O(shards), of which few are written.

    Examples
    --------
    >>> some = {str(n): {"rows": n} for n in range(1500)}
    >>> first = divided(some, [])
    >>> len(first.inline), len(first.new)
    (0, 1500)
    >>> page = Page(RunFile("page-000000000000-000000000000.arrow", 1, "0" * 16), first.new)
    >>> then = divided({**some, "7": {"rows": 8}}, [page])
    >>> then.inline, len(then.kept), then.new
    ({'7': {'rows': 8}}, 1, None)
    """
    if len(shards) < PAGED_FROM:
        return Division(shards, ())
    known = merged(pages, {})
    if not known.keys() <= shards.keys():
        # laid out anew, with other shards
        return Division({}, (), shards)
    changed = {number: said for number, said in shards.items() if not _same(known.get(number), said)}
    if len(changed) <= INLINE_SHARDS:
        return Division(changed, tuple(pages))
    kept = list(pages)
    while kept and len(kept[-1].shards) <= _TIMES * len(changed):
        changed = {**kept.pop().shards, **changed}
    # what changed since is what counts, also of shards whose page is older
    return Division({}, tuple(kept), {number: shards[number] for number in changed})


def _same(known: Any, said: Any) -> bool:
    return known is said or known == said


def merged(pages: Sequence[Page], inline: Shards) -> dict[str, Any]:
    """All shards, as the newest that speaks of each has it."""
    found: dict[str, Any] = {}
    for page in pages:
        found |= page.shards
    return {**found, **inline}


def listed(shards: Shards) -> pa.Table:
    """What a page holds."""
    numbers = [int(number) for number in shards]
    said = [json.dumps(shard, separators=(",", ":")) for shard in shards.values()]
    return pa.table([pa.array(numbers, pa.int32()), pa.array(said, pa.large_string())], schema=_SCHEMA)


def shards_in(tables: Sequence[pa.Table]) -> Shards:
    """Back from `listed`; a ValueError where it is none."""
    if len(tables) != 1 or not same_columns(tables[0].schema, _SCHEMA) or any(c.null_count for c in tables[0].columns):
        raise ValueError("it is no list of shards")
    numbers, said = (column.to_pylist() for column in tables[0].columns)
    shards = {str(number): plain_data(text.encode()) for number, text in zip(numbers, said, strict=True)}
    if len(shards) != len(numbers):
        raise ValueError("it lists a shard twice")
    for problem in shard_problems(shards):
        raise ValueError(problem)
    return shards


_read: dict[str, dict[RunFile, Page]] = {}
"""By state the pages of the version that this process read or made last: they never change."""
_reading = Lock()
_MOST_STATES = 4


def read_pages(url: str, files: Sequence[RunFile], read: Callable[[RunFile], Shards]) -> list[Page]:
    """The pages that a version names, those of them read anew that the last one read here does not name."""
    if not files:
        return []
    held = _read.get(url, {})
    found = [held.get(file) or Page(file, read(file)) for file in files]
    remember(url, found)
    return found


def remember(url: str, pages: Sequence[Page]) -> None:
    """Keep the pages of the newest version of a state at hand, and of few states at a time."""
    if pages:
        with _reading:
            _read.pop(url, None)
            while len(_read) >= _MOST_STATES:
                del _read[next(iter(_read))]
            _read[url] = {page.file: page for page in pages}


def pages_named(header: Mapping[str, Any]) -> Iterator[RunFile]:
    """The pages that an entry or a manifest names."""
    return (RunFile.of(data) for data in header.get("pages", ()))
