"""A state's objects in S3, in stores that speak its language, in Google Cloud Storage or in Azure, through obstore."""

from __future__ import annotations

import itertools
import os
import random
import re
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from holdstrue.errors import StateError, brief
from holdstrue.state.object_client import LIBRARY, Clients, Purpose, require_obstore
from holdstrue.state.object_errors import Trouble, explain_panic, is_panic, raised_by_obstore
from holdstrue.state.object_settings import endpoint
from holdstrue.state.object_url import ObjectUrl
from holdstrue.state.store import Listed, Missing, Taken, UnsureError

Buffer = bytes | bytearray | memoryview
Body = list[memoryview]

PART = 8 << 20
"""Bytes of one request of an upload. Chosen, not tuned."""
UPLOAD_LANES = 4
"""Parts on their way at once; on a slow line they share the time that one may take (see `PATIENCE`)."""
RANGE = 32 << 20
LANES = 8
"""Bytes of one request of a download, and such requests at once: stores bound what one brings. Chosen, not tuned."""
SMALL = 1 << 20
"""Up to here an object is created with the short patience. Chosen, not tuned."""
ATTEMPTS = 6
UNTIL = 12.0
"""How often, and up to how many seconds after the first time, is asked what obstore does not repeat by itself."""

_WRITER = "holdstruewriter"
"""The metadata that says which call created an object; Azure takes no hyphens, some proxies no underscores."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]*(/[A-Za-z0-9][A-Za-z0-9._\-]*)*")


Listing = list[Listed]


class ObjectStore:
    """Named immutable objects below a URL.

    Credentials and addresses come from the environment of the process that makes the requests. Nothing is connected
    before the first request; a forked process connects anew.

    Parameters
    ----------
    url
        `s3://BUCKET/FOLDER`, `gs://BUCKET/FOLDER`, `az://CONTAINER/FOLDER` or another form that `ObjectUrl` reads.

    Examples
    --------
    >>> ObjectStore("s3a://bucket/orders/state/")
    ObjectStore('s3a://bucket/orders/state')
    """

    holds = "state"
    """What lies below the URL, for messages."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        self._place = ObjectUrl.of(url, self.holds)
        require_obstore("states" if self.holds == "state" else self.holds)
        self.url = self._place.url
        self._clients = Clients.at(self._place)

    def __repr__(self) -> str:
        return f"ObjectStore({self.url!r})"

    def __reduce__(self) -> tuple[type[ObjectStore], tuple[str]]:
        # to executors of Spark goes the URL; connections and credentials are theirs
        return ObjectStore, (self.url,)

    def _check_name(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise StateError(
                f"{brief(name)} is not a name of an object of a state", hint="the state is damaged, or not ours"
            )

    @property
    def identity(self) -> str:
        """What tells this store from others: URLs of one bucket at two addresses are two stores."""
        place = self._place
        at = endpoint(place, os.environ) or ""
        return f"{place.provider}://{place.account or ''}@{place.bucket}/{place.prefix} at {at}"

    def create(self, name: str, data: Buffer | Sequence[Buffer]) -> None:
        """Create an object unless one of this name is there, which raises `Taken`; it is durable on return.

        A request whose answer is lost may have created the object. It is sent again, and when an object is there then,
        its metadata says whether this very call made it; a store that keeps no metadata is asked for the bytes.
        Raises `UnsureError` where that cannot be found out.
        """
        self._check_name(name)
        body = _buffers(data)
        purpose: Purpose = "create" if sum(map(len, body)) <= SMALL else "create large"
        writer = uuid.uuid4().hex
        trouble, lost = _insist(lambda: self._try_create(purpose, name, body, writer))
        if trouble is not None:
            error = trouble.explain(self._place, f"create {name} in")
            raise _uncertain(error) if lost else error

    def _try_create(self, purpose: Purpose, name: str, body: Body, writer: str) -> Trouble | None:
        """Ask once; None when the object is there and ours, else what went wrong."""
        with self._requests(purpose, f"create {name} in") as (obstore, client):
            try:
                obstore.put(client, name, body, mode="create", attributes={_WRITER: writer})
            except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError) as error:
                trouble = Trouble.of(error)
            except Exception as error:
                if not raised_by_obstore(error):
                    raise
                return Trouble.of(error)
            else:
                return None
        try:
            ours = self._made_by(name, writer, body)
        except StateError as error:
            raise _uncertain(error) from None
        if ours is None:
            # a store also answers 409 while another request for the name is under way
            return trouble
        if not ours:
            raise Taken(name)
        return None

    def _made_by(self, name: str, writer: str, body: Body | None = None) -> bool | None:
        """Whether the object is there by this writer; None when it is not there."""
        with self._requests("read", f"read {name} of") as (obstore, client):
            try:
                found = obstore.get(client, name, options={"head": True})
            except FileNotFoundError:
                return None
        told = found.attributes.get(_WRITER)
        if told is not None or body is None:
            return bool(told == writer)
        try:
            return self.read(name) == b"".join(body)
        except Missing:
            return None

    def create_from(self, name: str, path: Path) -> None:
        """Create an object from a local file of any size, which is not read into memory as a whole.

        What takes more than one request is written without condition, since obstore has none for uploads in parts: the
        name must be fresh, as names of runs are (they hold a random number).
        """
        self._check_name(name)
        size = path.stat().st_size
        if size <= PART:
            self.create(name, path.read_bytes())
            return
        writer = uuid.uuid4().hex
        # a store takes at most 10,000 parts
        part = max(PART, -(-size // 9000))
        with self._requests("upload", f"create {name} in") as (obstore, client):
            try:
                obstore.put(
                    client,
                    name,
                    path,
                    attributes={_WRITER: writer},
                    use_multipart=True,
                    chunk_size=part,
                    max_concurrency=UPLOAD_LANES,
                )
            except Exception as error:
                trouble = Trouble.of(error)
                # the last request may have been done and its answer lost: repeated, it does not find its parts
                lost = not trouble.undone or (trouble.status == 404 and not trouble.no_bucket)
                if not (raised_by_obstore(error) and lost and self._arrived(name, writer)):
                    raise

    def _arrived(self, name: str, writer: str) -> bool:
        try:
            return bool(self._made_by(name, writer))
        except StateError:  # what went wrong before says more
            return False

    def read(self, name: str) -> bytes:
        """The bytes of an object; raises `Missing`."""
        self._check_name(name)
        with self._requests("read", f"read {name} of", name) as (obstore, client):
            return bytes(obstore.get(client, name).bytes())

    def read_range(self, name: str, start: int, size: int) -> bytes:
        """A part of an object, shorter where the object ends; raises `Missing`."""
        self._check_name(name)
        if size == 0:
            return b""
        with self._requests("read", f"read bytes {start} to {start + size} of {name} of", name) as (obstore, client):
            try:
                return bytes(obstore.get_range(client, name, start=start, length=size))
            except obstore.exceptions.GenericError as error:
                if Trouble.of(error).status != 416:
                    raise
                return b""

    def fetch(self, name: str, path: Path, size: int | None = None) -> None:
        """Download an object into a local file, a large one by several requests at once; raises `Missing`.

        Parameters
        ----------
        size
            Of the object, where it is known, which saves asking for a small one.
        """
        self._check_name(name)
        if size is None or size > RANGE:
            # one that is told may be damaged, and absurd
            there = self._size(name)
            if size not in (None, there):
                raise self._damaged(name, f"it has {there} bytes instead of {size}")
            size = there
        with path.open("wb") as file:
            file.truncate(size)
        starts = range(0, size, RANGE)
        if len(starts) <= 1:
            self._bring(name, path, 0, size)
            return
        with ThreadPoolExecutor(min(LANES, len(starts)), thread_name_prefix="holdstrue-fetch") as pool:
            pending = [pool.submit(self._bring, name, path, start, min(RANGE, size - start)) for start in starts]
            try:
                for one in pending:
                    one.result()
            finally:
                pool.shutdown(wait=True, cancel_futures=True)

    def _bring(self, name: str, path: Path, start: int, size: int) -> None:
        """Write a range of an object to its place in a file, as it comes."""
        if size == 0:
            return
        came = 0
        with path.open("r+b") as file:
            file.seek(start)
            for chunk in self._stream(name, start, size):
                came += file.write(chunk)
        if came < size:
            raise self._damaged(name, f"it ends before byte {start + size}")

    def _stream(self, name: str, start: int, size: int) -> Iterator[Any]:
        with self._requests("read", f"read bytes {start} to {start + size} of {name} of", name) as (obstore, client):
            try:
                stream = obstore.get(client, name, options={"range": (start, start + size)}).stream(1 << 20)
            except obstore.exceptions.GenericError as error:
                if Trouble.of(error).status != 416:
                    raise
                return
        while True:
            # what writing raises is none of the store's
            with self._requests("read", f"read bytes {start} to {start + size} of {name} of"):
                chunk = next(stream, None)
            if chunk is None:
                return
            yield chunk

    def _size(self, name: str) -> int:
        return self.described(name).size

    def described(self, name: str) -> Listed:
        """An object as it is now, by whole seconds; raises `Missing`."""
        # not asked for by HEAD, whose answer would not tell a missing bucket from a missing object
        with self._requests("read", f"read {name} of", name) as (obstore, client):
            try:
                found = obstore.get(client, name, options={"range": (0, 1)}).meta
            except obstore.exceptions.GenericError as error:
                if Trouble.of(error).status != 416:
                    raise
                found = obstore.head(client, name)  # an empty object has no first byte
        return _listed(found)

    def _damaged(self, name: str, why: str) -> StateError:
        return StateError(f"{self.url}/{name} is damaged: {why}", hint="restore it from a copy")

    def list(self, prefix: str = "", after: str | None = None) -> Listing:
        """Every object whose name starts with `prefix`, by name.

        Parameters
        ----------
        after
            Only names that follow this one; S3 and Google's store then send no others.
        """
        # obstore lists folders
        folder = prefix.rpartition("/")[0]
        with self._requests("read", f"list {prefix or 'the objects'} of") as (obstore, client):
            found = obstore.list(client, prefix=folder or None, offset=after).collect()
        listed = [_listed(one) for one in found]
        return sorted((one for one in listed if one.name.startswith(prefix)), key=lambda one: one.name)

    def list_folder(self) -> Listing:
        """The objects directly in the folder, by name; what lies in folders of it is not listed."""
        with self._requests("read", "list the objects of") as (obstore, client):
            found = obstore.list_with_delimiter(client)["objects"]
        return sorted(map(_listed, found), key=lambda one: one.name)

    def delete(self, names: Sequence[str]) -> None:
        """Delete objects; those that are not there are fine."""
        for name in names:
            self._check_name(name)
        trouble, _ = _insist(lambda: self._try_delete(names) if names else None)
        if trouble is not None:
            raise trouble.explain(self._place, "delete objects of")

    def _try_delete(self, names: Sequence[str]) -> Trouble | None:
        with self._requests("read", "delete objects of") as (obstore, client):
            try:
                obstore.delete(client, list(names))
            except Exception as error:
                trouble = Trouble.of(error)
                if not raised_by_obstore(error):
                    raise
                if not isinstance(error, FileNotFoundError) or trouble.no_bucket:
                    return trouble
            else:
                return None
            # some stores tell of those that are not there, and stop
            for name in names:
                try:
                    obstore.delete(client, name)
                except FileNotFoundError:
                    continue
        return None

    @contextmanager
    def _requests(self, purpose: Purpose, doing: str, name: str | None = None) -> Iterator[tuple[Any, Any]]:
        """The obstore of this process and a client; what it raises becomes an error of ours.

        Parameters
        ----------
        name
            The object that is read, for `Missing`.
        """
        try:
            yield LIBRARY.load(), self._clients.get(purpose)
        except StateError:
            raise
        except Exception as error:
            if not raised_by_obstore(error):
                raise
            if name is not None and isinstance(error, FileNotFoundError) and not Trouble.of(error).no_bucket:
                raise Missing(name) from None
            trouble = Trouble.of(error)
            if trouble.status in (400, 401, 403) or trouble.credentials:
                # the next request looks for credentials again
                self._clients.forget()
            # without the cause: its text holds whole addresses and what the server sent
            raise trouble.explain(self._place, doing) from None
        except BaseException as error:
            if not is_panic(error):
                raise
            failed = explain_panic(self._place, doing)
            raise (failed if purpose == "read" else _uncertain(failed)) from None


def _insist(ask: Callable[[], Trouble | None]) -> tuple[Trouble | None, bool]:
    """Ask again while trouble is passing; what trouble is left, and whether something may have been done on the way."""
    started = time.monotonic()
    lost = False
    for attempt in itertools.count(1):
        trouble = ask()
        if trouble is None:
            break
        lost |= not trouble.undone
        if not trouble.passing or attempt == ATTEMPTS or time.monotonic() - started > UNTIL:
            break
        time.sleep(min(2.0, 0.05 * 2**attempt) * random.uniform(0.5, 1))  # noqa: S311
    return trouble, lost


def _uncertain(error: StateError) -> UnsureError:
    unsure = UnsureError(f"{error.message}; it may have been created nevertheless", hint=error.hint)
    unsure.passing = error.passing
    return unsure


def _listed(found: Any) -> Listed:
    """An object as obstore describes it."""
    return Listed(str(found["path"]), int(found["size"]), found["last_modified"].timestamp(), str(found["e_tag"] or ""))


def _buffers(data: Buffer | Sequence[Buffer]) -> Body:
    """The parts of an object as plain bytes, which are not copied.

    >>> [bytes(part) for part in _buffers([b"ab", memoryview(b""), bytearray(b"c")])]
    [b'ab', b'c']
    """
    try:
        views = [memoryview(data)]  # type: ignore[arg-type]
    except TypeError:
        views = [memoryview(part) for part in data]  # type: ignore[arg-type]
    return [view.cast("B") for view in views if view.nbytes] or [memoryview(b"")]
