"""States of earlier formats, read as they are; the next commit writes the present one.

Formats 2 and 3 kept each version as a file `manifest-000000000012.json` with a checksum, and all runs beside it.
Format 2 did not say whose state it is, which shows for monitors and discoveries. Format 1 digested values in
another way, so that its indexes are of no use: it is loaded anew from its rows (see `monitor/format_1.py`).
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from holdstrue.data.seed import Seed
from holdstrue.errors import StateError
from holdstrue.state.entry import plain_data
from holdstrue.state.local import LocalStore
from holdstrue.state.manifest import FORMAT, Manifest, checked
from holdstrue.state.store import Listed, Store

READ = (1, 2, 3)
_NAME = "manifest-{:012d}.json"


def newest(store: Store) -> int | None:
    """The newest version that an earlier format holds; None where there is none."""
    found = _found(store)
    return max(found) if found else None


def manifest(store: Store, version: int) -> Manifest | None:
    """What a version of an earlier format says, as the present one would; None where that is not its format."""
    if not isinstance(store, LocalStore) or version not in _found(store):
        return None
    path = store.root / _NAME.format(version)
    try:
        body: dict[str, Any] = plain_data(path.read_bytes())
        told = body.pop("checksum")
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


def collect(store: Store, *, keep: bool) -> list[Listed]:
    """Remove manifests of earlier formats unless they are to be kept; returns those."""
    if keep or not isinstance(store, LocalStore):
        return []
    gone = []
    for name in (_NAME.format(version) for version in _found(store)):
        about = (store.root / name).lstat()
        (store.root / name).unlink()
        gone.append(Listed(name, about.st_size, about.st_mtime))
    return gone


def _found(store: Store) -> list[int]:
    if not isinstance(store, LocalStore):
        return []
    return sorted(
        int(path.stem.removeprefix("manifest-")) for path in store.root.glob("manifest-" + "[0-9]" * 12 + ".json")
    )


def _sum(body: dict[str, Any]) -> str:
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _damaged(what: str, why: str) -> StateError:
    return StateError(f"{what} is damaged: {why}", hint="restore the state from a copy, or make it anew")
