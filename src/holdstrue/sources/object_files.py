"""Objects, folders and patterns in object stores: read by ranges, copied, or read as the lakehouse table they are.

Connections, credentials and messages are those of states in object stores.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath

from holdstrue.errors import DataError, StateError
from holdstrue.sources.copies import Copies
from holdstrue.sources.datafiles import ENDINGS, DataFile, data_names, format_by_name, format_of, spelling_hint
from holdstrue.sources.lakehouse import LakeTable, newest_metadata
from holdstrue.sources.ranges import WHOLE_BELOW, RangeFile, changed
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import Listed, Missing


class DataObjects(ObjectStore):
    """Objects of others, whose names may be any."""

    holds = "data"

    def _check_name(self, name: str) -> None:
        """Names come from the store or from the user."""

    def read_part(self, one: Listed, start: int, size: int) -> bytes:
        """A part of an object as it was listed; an error where it is not there any more, or another one."""
        try:
            with as_data(), self._requests("read", f"read {one.name} of", one.name) as (obstore, client):
                found = obstore.get(client, one.name, options={"range": (start, start + size)})
                data, now = bytes(found.bytes()), found.meta
        except Missing:
            now, data = None, b""
        if now is None or str(now["e_tag"] or "") != one.tag or int(now["size"]) != one.size or len(data) != size:
            raise changed(f"{self.url}/{one.name}")
        return data


def opened(url: str, format: str | None) -> Sequence[DataFile] | LakeTable:  # noqa: A002
    """What lies at a URL: an object, the data files of a folder or a pattern, or a table of Delta Lake or Iceberg."""
    with as_data():
        if re.search(r"[*\[]", url) and "?" not in url:
            return _pattern(url, format)
        name = PurePosixPath(url.rstrip("/")).name
        if format_by_name(name) and not url.endswith("/"):
            found = _object(url, format)
            if found is not None:
                return found
        return _folder(url, format)


@contextmanager
def as_data() -> Iterator[None]:
    """Errors of object stores as errors of data."""
    try:
        yield
    except StateError as error:
        raise DataError(error.message, hint=error.hint) from error.__cause__


def read_object(folder: str, name: str) -> bytes | None:
    """The bytes of a small object; None where there is none."""
    with as_data():
        try:
            return DataObjects(folder).read(name)
        except Missing:
            return None


def _object(url: str, format: str | None) -> Sequence[DataFile] | None:  # noqa: A002
    """One object; None where there is none of this name."""
    above, _, name = url.rpartition("/")
    if not re.match(r"[A-Za-z0-9+.\-]+://.", above):  # a bucket alone
        return None
    store = DataObjects(above)
    try:
        return data_files(store, [store.described(name)], format)
    except Missing:
        return None


def folder_of(url: str) -> DataObjects | None:
    """The folder of data files that a URL names; None where it names an object, a pattern or a lakehouse table.

    An empty folder is one, since an object store has no folders but names with slashes.
    """
    if re.search(r"[*\[?]", url):
        return None
    with as_data():
        above, _, name = url.rstrip("/").rpartition("/")
        if not url.endswith("/") and format_by_name(name) and _has(above, name):
            return None
        store = DataObjects(url)
        return None if _is_lake(store) else store


def _has(above: str, name: str) -> bool:
    if not re.match(r"[A-Za-z0-9+.\-]+://.", above):
        return False
    try:
        DataObjects(above).described(name)
    except Missing:
        return False
    return True


def _is_lake(store: DataObjects) -> bool:
    return bool(store.list("_delta_log/")) or any(_LOG.search(one.name) for one in store.list("metadata/"))


def _folder(url: str, format: str | None) -> Sequence[DataFile] | LakeTable:  # noqa: A002
    store = DataObjects(url)
    if store.list("_delta_log/"):
        return LakeTable(store.url, "delta")
    logs = [one.name.removeprefix("metadata/") for one in store.list("metadata/")]
    found = newest_metadata(logs, f"{store.url}/metadata", lambda: store.read("metadata/version-hint.text"))
    if found is not None:
        return LakeTable(store.url, "iceberg", f"{store.url}/metadata/{found}")
    names = store.list("")
    known = set(data_names(one.name for one in names if "/" not in one.name))
    direct = [one for one in names if one.name in known]
    if direct:
        return data_files(store, direct, format)
    if not names:
        single = _object(url, format)
        if single is not None:
            return single
        raise DataError(f"there is nothing at {store.url}", hint=_near(store.url))
    deeper = f"; use a pattern like '{store.url}/**/*.parquet'" if any("/" in one.name for one in names) else ""
    raise DataError(
        f"the folder {store.url} has no data files directly in it", hint=f"names end in {', '.join(ENDINGS)}{deeper}"
    )


def _near(url: str) -> str:
    """What a URL that names nothing may have meant."""
    above, _, name = url.rpartition("/")
    if not re.match(r"[A-Za-z0-9+.\-]+://.", above):
        return "the bucket is empty"
    there = sorted({one.name.split("/")[0] for one in DataObjects(above).list("")})
    return spelling_hint(name, there) if there else f"{above} is empty, too"


def _pattern(url: str, format: str | None) -> Sequence[DataFile]:  # noqa: A002
    parts = url.split("/")
    first = next(i for i, part in enumerate(parts) if re.search(r"[*\[]", part))
    if first < 3:
        raise DataError(f"the pattern {url!r} names no bucket", hint="give s3://BUCKET/PATTERN")
    store, wanted = DataObjects("/".join(parts[:first])), "/".join(parts[first:])
    matches = _matcher(wanted)
    names = store.list("")
    found = [one for one in names if matches(one.name)]
    inside = next((one.name for one in names if _LOG.search(one.name)), None)
    if inside is not None and any(one.name.startswith(_LOG.split(inside)[0]) for one in found):
        raise DataError(
            f"{url!r} lies inside or around a table of Delta Lake or Iceberg",
            hint="give the folder of the table: files in it may hold rows that the table no longer has",
        )
    if not found:
        raise DataError(f"no object matches {url!r}", hint=f"{store.url} has {len(names):,} objects")
    return data_files(store, found, format)


_LOG = re.compile(r"(?:^|(?<=/))(?:_delta_log/|metadata/[^/]*\.metadata\.json$)")


def _matcher(pattern: str) -> Callable[[str], bool]:
    """Whether a name matches a pattern in which `**` stands for any folders, as with files.

    >>> [_matcher("**/*.csv")(name) for name in ("a.csv", "x/y/a.csv", "x/a.json", "x/.a.csv")]
    [True, True, False, False]
    """
    made = []
    for part in pattern.split("/"):
        made.append(r"(?:[^/.][^/]*/)*" if part == "**" else _hidden(part) + _one_part(part) + "/")
    whole = re.compile("".join(made).removesuffix("/"))
    return lambda name: whole.fullmatch(name) is not None


def _hidden(part: str) -> str:
    return "" if part.startswith(".") else r"(?!\.)"


def _one_part(part: str) -> str:
    """A part of a pattern between two slashes as a regular expression."""
    words = {"*": "[^/]*", "?": "[^/]"}
    made = []
    for piece in re.split(r"(\*|\?|\[!?[^\]]+\])", part):
        if len(piece) > 2 and piece.startswith("["):
            inner = piece[1:-1].replace("\\", r"\\")
            made.append(f"[^/{inner[1:]}]" if inner.startswith("!") else f"[{inner}]")
        else:
            made.append(words.get(piece, re.escape(piece)))
    return "".join(made)


def data_files(store: DataObjects, objects: Sequence[Listed], format: str | None) -> list[DataFile]:  # noqa: A002
    """Objects as files: large ones of Parquet by ranges of what is asked for, others as copies."""
    if any(_told(one.name, format) != "parquet" or one.size <= WHOLE_BELOW or not one.tag for one in objects):
        return copied_objects(store, objects)
    return [
        DataFile(
            Path(PurePosixPath(one.name).name),
            shown=f"{store.url}/{one.name}",
            ranges=lambda one=one: RangeFile(one.size, partial(store.read_part, one)),  # type: ignore[misc]
        )
        for one in objects
    ]


def _told(name: str, format: str | None) -> str | None:  # noqa: A002
    return format_by_name(name) if format is None else format_of(Path(name), format)


def copied_objects(store: DataObjects, objects: Sequence[Listed]) -> list[DataFile]:
    """Copies of objects."""
    files = []
    with Copies().filling() as copies:
        for one in objects:
            path: Path = copies.path(one.name)
            store.fetch(one.name, path, None if one.size < 0 else one.size)
            files.append(copies.file(path, f"{store.url}/{one.name}"))
    return files
