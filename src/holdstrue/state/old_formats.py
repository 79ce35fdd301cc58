"""States of earlier formats, read as they are; the next commit writes the present one.

Formats 2 and 3 kept each version as a file `manifest-000000000012.json` with a checksum, and all runs beside it.
Format 2 did not say whose state it is, which shows for monitors and discoveries. Format 1 digested values in
another way, so that its indexes are of no use: it is loaded anew from its rows (see `monitor/format_1.py`).

Earlier versions of this package know nothing of a log, and would go on from the newest manifest beside it. So the
first commit to the log is preceded by a bar: one manifest more, of a later format, which they refuse to read. A
crash between the two leaves a state that is read from its manifests, and by this version alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from holdstrue.data.seed import Seed
from holdstrue.errors import StateError
from holdstrue.state.entry import plain_data
from holdstrue.state.local import DRAFT, LocalStore
from holdstrue.state.lock import NOFOLLOW, refuse_strange
from holdstrue.state.manifest import FORMAT, Manifest, checked
from holdstrue.state.segment import sync
from holdstrue.state.store import Listed, Store

READ = (1, 2, 3)
_BARRED = 4
"""The format that a bar says, whichever the log is of: all that wrote manifests refuse it."""
_NAME = "manifest-{:012d}.json"


def listed(store: Store) -> dict[int, Listed]:
    """The versions that manifests hold, the oldest first; their times are those of the files, as nothing else says."""
    if not isinstance(store, LocalStore):
        return {}
    found = {}
    for version in _numbers(store.root):
        path = store.root / _NAME.format(version)
        try:
            about = path.lstat()
            if not _is_bar(path, version):
                found[version] = Listed(path.name, about.st_size, about.st_mtime)
        except FileNotFoundError:  # removed just now
            continue
    return found


def newest(store: Store) -> int | None:
    """The newest version that an earlier format holds; None where there is none."""
    return max(listed(store), default=None)


def manifest(store: Store, version: int) -> Manifest | None:
    """What a version of an earlier format says, as the present one would; None where that is not its format."""
    if not isinstance(store, LocalStore):
        return None
    path = store.root / _NAME.format(version)
    try:
        if _is_bar(path, version):
            return None
        body: dict[str, Any] = plain_data(_read(path))
        told = body.pop("checksum")
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise _damaged(str(path), "it cannot be read") from error
    if told != _sum(body):
        raise _damaged(str(path), "its checksum does not match")
    said = body.get("format")
    if said not in READ or (said != 3 and {"fixed", "site"} & body.keys()):
        raise StateError(
            f"{path} has format {said!r}, this version reads up to {FORMAT}",
            hint="make the state anew; of formats 1 and 2 only monitors and discoveries are read by this version",
        )
    kind = body.get("kind") or ("monitor" if "rules" in body else "discovery")
    base = body.get("base") or {}
    shape = {**body, "kind": kind, "base": base, "format": FORMAT, "recent": [], "committed": 0}
    if said == 1:
        # whose digests had no seed: what is made anew of its rows has one of its own
        shape |= _seeded(body)
    return {**checked(shape, str(path)), "format": said}


def _seeded(body: Manifest) -> Manifest:
    seed = Seed.new().to_dict()
    about = body.get("discovery")
    if not isinstance(about, dict) or not isinstance(about.get("options"), dict):
        return {"digest": seed}
    # shares were numbers, and are decimals as they are written
    shares = {name: str(value) for name, value in about["options"].items() if isinstance(value, float)}
    budget = {"budget": about["options"].get("budget")}
    return {"discovery": {**about, "options": {**about["options"], **shares, **budget, "digest": seed}}}


# --- beside a log ------------------------------------------------------------------------------


def bar(store: Store) -> None:
    """Make sure, durably, that earlier versions of this package refuse the state; only where there are manifests."""
    if not isinstance(store, LocalStore):
        return
    numbers = _numbers(store.root)
    if not numbers or _is_bar(store.root / _NAME.format(numbers[-1]), numbers[-1]):
        return
    version = numbers[-1] + 1
    draft = store.root / DRAFT
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | NOFOLLOW, 0o644)
    try:
        left = memoryview(_bar(version))
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(draft, store.root / _NAME.format(version))  # noqa: PTH105  # as one call, which tests can harm
    sync(store.root)


def beside(store: Store, first: int) -> dict[int, Listed]:
    """Manifests that go on where the log does, which begins with a version: another history.

    They come of a version of this package that knew neither the log nor a bar, or of two copies put together.
    """
    numbers = _numbers(store.root) if isinstance(store, LocalStore) else []
    if not isinstance(store, LocalStore) or not numbers:
        return {}
    bars = [n for n in numbers if _is_bar(store.root / _NAME.format(n), n)]
    return {version: one for version, one in listed(store).items() if version >= min([first, *bars])}


def refuse_beside(store: Store, first: int) -> None:
    """Raise where there are two histories: nobody can tell which one is meant."""
    second = beside(store, first)
    for version in second:
        manifest(store, version)  # says so where it is merely damaged
    if second:
        names = " to ".join(dict.fromkeys((second[min(second)].name, second[max(second)].name)))
        raise StateError(
            f"{store.url} has two histories: log/ goes on from version {first}, and so does {names}, "
            "written by an earlier version of holdstrue",
            hint="make a copy of the directory; then move either those manifests, or log/ and lock, out of it, see "
            "what holdstrue verify STATE says, and apply again the batches that only the other history has",
        )


def collect(store: Store, versions: Collection[int]) -> list[Listed]:
    """Remove manifests of versions; returns them. A bar stays, and tells earlier versions of this package to stop."""
    if not isinstance(store, LocalStore):
        return []
    gone = []
    for version, one in listed(store).items():
        if version in versions:
            (store.root / one.name).unlink(missing_ok=True)
            gone.append(one)
    if gone:
        sync(store.root)  # before runs go that they name
    return gone


def _numbers(root: Path) -> list[int]:
    return sorted(int(path.stem.removeprefix("manifest-")) for path in root.glob("manifest-" + "[0-9]" * 12 + ".json"))


def _bar(version: int) -> bytes:
    """What a bar holds: a manifest that says nothing but its format.

    >>> sorted(json.loads(_bar(7)))
    ['checksum', 'format', 'note', 'version']
    """
    body = {"format": _BARRED, "version": version, "note": "this state goes on in log/, in a later format"}
    return json.dumps(body | {"checksum": _sum(body)}, separators=(",", ":")).encode()


def _is_bar(path: Path, version: int) -> bool:
    bar = _bar(version)
    try:
        return path.lstat().st_size == len(bar) and _read(path) == bar
    except FileNotFoundError:  # removed just now
        return False


def _read(path: Path) -> bytes:
    refuse_strange(path)
    return path.read_bytes()


def _sum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _damaged(what: str, why: str) -> StateError:
    return StateError(f"{what} is damaged: {why}", hint="restore the state from a copy, or make it anew")
