"""Where tests keep states: directories, or folders of a bucket on loopback; the same questions for both."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import quote

import pytest

from objects import Moto, set_environment


class Places(Protocol):
    """Fresh places for states, copies of states, and what lies at them."""

    kind: str

    def fresh(self) -> str:
        """A place where nothing is."""

    def objects(self, place: str) -> dict[str, bytes]:
        """Everything of a state by its name, past all of our own reading."""

    def filled(self, objects: Mapping[str, bytes]) -> str:
        """A fresh place with these objects."""


class Folders:
    """Places on this machine."""

    kind = "local"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def fresh(self) -> str:
        """A path where nothing is."""
        return str(self._folder / f"state{next(self._numbers)}")

    def objects(self, place: str) -> dict[str, bytes]:
        """The files of a state."""
        root = Path(place)
        return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}

    def filled(self, objects: Mapping[str, bytes]) -> str:
        """A directory with these files."""
        place = self.fresh()
        for name, data in objects.items():
            path = Path(place, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return place


class Buckets:
    """Places in a bucket."""

    kind = "s3"

    def __init__(self, moto: Moto) -> None:
        self._moto = moto
        self._bucket = moto.make_bucket()
        self._numbers = itertools.count()

    def fresh(self) -> str:
        """A URL where nothing is."""
        return f"s3://{self._bucket}/states/{next(self._numbers)}"

    def objects(self, place: str) -> dict[str, bytes]:
        """The objects of a state."""
        prefix = place.removeprefix(f"s3://{self._bucket}/") + "/"
        names: list[str] = []
        more = True
        while more:
            after = quote(names[-1] if names else "", safe="")
            listed = f"/{self._bucket}?list-type=2&prefix={quote(prefix, safe='')}&start-after={after}"
            status, body = self._moto.request("GET", listed)
            assert status == 200, body
            names += re.findall(r"<Key>([^<]*)</Key>", body.decode())
            more = b"<IsTruncated>true" in body
        return {name.removeprefix(prefix): self._moto.request("GET", f"/{self._bucket}/{name}")[1] for name in names}

    def filled(self, objects: Mapping[str, bytes]) -> str:
        """A folder with these objects."""
        place = self.fresh()
        for name, data in objects.items():
            self.put(place, name, data)
        return place

    def put(self, place: str, name: str, data: bytes) -> None:
        """Put an object there."""
        status, body = self._moto.request("PUT", f"/{place.removeprefix('s3://')}/{name}", data)
        assert status == 200, body


@pytest.fixture
def buckets(moto: Moto, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """An object store alone; the environment is set for it, with a cache of its own."""
    set_environment(monkeypatch, moto.url, tmp_path)
    return Buckets(moto)


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    """Directories alone."""
    return Folders(tmp_path / "places")


@pytest.fixture(params=["local", "s3"])
def places(request: pytest.FixtureRequest) -> Places:
    """Directories, then an object store: a test that asks for it runs with both."""
    found: Places = request.getfixturevalue("folders" if request.param == "local" else "buckets")
    return found


@pytest.fixture
def place(places: Places) -> str:
    """A fresh place in each of them."""
    return places.fresh()
