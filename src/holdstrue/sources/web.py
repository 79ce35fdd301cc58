"""Files at http:// and https:// addresses: fetched whole, or of Parquet what is read, where the server lets one."""

from __future__ import annotations

import base64
import http.client
import posixpath
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit, urlunsplit

from holdstrue.errors import DataError
from holdstrue.location import shown
from holdstrue.sources.copies import Copies, copied
from holdstrue.sources.datafiles import COMPRESSIONS, FORMATS, DataFile, format_by_name, format_of
from holdstrue.sources.ranges import END, RangeFile, changed

SILENCE = 30.0
"""Seconds without an answer after which a request is given up. Chosen, not tuned."""

_TYPES = {
    "text/csv": "csv",
    "application/csv": "csv",
    "text/tab-separated-values": "tsv",
    "application/vnd.apache.parquet": "parquet",
    "application/x-parquet": "parquet",
    "application/vnd.apache.arrow.file": "arrow",
    "application/vnd.apache.arrow.stream": "arrow",
    "application/x-ndjson": "json",
    "application/jsonl": "json",
    "application/jsonlines": "json",
}
"""Content types that say a format; what says less (text/plain, application/octet-stream) is left to the name."""

_ENCODINGS = {"gzip": ".gz", "x-gzip": ".gz", "zstd": ".zst"}


def opened(url: str, format: str | None) -> Sequence[DataFile]:  # noqa: A002
    """The file at an address, in the format that is given or that its name, then its content type, tells."""
    name = shown(url)
    request = _request(url, name)
    if not _told_parquet(url, format):
        return [_copy(request, url, name, format)]
    found = _by_ranges(request, url, name, format)
    return [_copy(request, url, name, format) if found is None else found]


def _told_parquet(url: str, given: str | None) -> bool:
    name = posixpath.basename(urlsplit(url).path)
    return format_by_name(unquote(name)) == "parquet" if given is None else format_of(Path(name), given) == "parquet"


def _copy(request: urllib.request.Request, url: str, name: str, given: str | None) -> DataFile:
    with _answered(request, name) as answer:
        return _copied(answer, url, name, given)


def _copied(answer: Any, url: str, name: str, given: str | None) -> DataFile:
    """The file that a server answers with."""
    if answer.status != 200:
        raise DataError(f"{name} answers {answer.status}, not with a file", hint="check the address")
    with Copies().filling() as copies:
        path, told = _named(copies, url, answer, name, given)
        size = copied(answer, path, name)
        said = answer.headers.get("Content-Length")
        if said is not None and said.isdecimal() and int(said) != size:
            raise DataError(
                f"{name} was cut short: {size:,} of {int(said):,} bytes came", hint="the connection broke: try again"
            ) from http.client.IncompleteRead(b"", int(said) - size)
        return copies.file(path, name, told)


def _by_ranges(request: urllib.request.Request, url: str, name: str, given: str | None) -> DataFile | None:
    """The file, of which only the end is fetched now; a copy where the server sends whole files only.

    None where it refuses to be asked for a part.
    """
    try:
        with _answered(_for_range(request, f"-{END}"), name) as answer:
            last = _part(answer)
            if last is None:
                return _copied(answer, url, name, given)
    except DataError as error:
        refused = error.__context__
        if isinstance(refused, urllib.error.HTTPError) and refused.code in (416, 501):
            return None
        raise

    def fetch(start: int, size: int) -> bytes:
        with _answered(_for_range(request, f"{start}-{start + size - 1}"), name) as answer:
            part = _part(answer)
        if part is None or (part.start, part.of, part.tag) != (start, last.of, last.tag) or len(part.data) != size:
            raise changed(name)
        return part.data

    path = Path(posixpath.basename(unquote(urlsplit(url).path)) or "x")
    return DataFile(path, shown=name, format="parquet", ranges=lambda: RangeFile(last.of, fetch, last.data))


@dataclass(frozen=True)
class _Part:
    """A range of a file as a server sent it."""

    data: bytes
    start: int
    of: int
    """The size of the whole file."""
    tag: tuple[str | None, str | None]
    """What tells the file from an earlier one at the address."""


_CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


def _part(answer: Any) -> _Part | None:
    """What an answer brings, where it is a part of a file."""
    told = _CONTENT_RANGE.fullmatch(answer.headers.get("Content-Range") or "")
    encoded = (answer.headers.get("Content-Encoding") or "identity").lower() != "identity"
    if answer.status != 206 or told is None or encoded:
        return None
    tag = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
    return _Part(answer.read(), int(told[1]), int(told[2]), tag)


def _for_range(request: urllib.request.Request, wanted: str) -> urllib.request.Request:
    part = urllib.request.Request(request.full_url, headers=dict(request.headers))  # noqa: S310
    for header, value in request.unredirected_hdrs.items():
        part.add_unredirected_header(header, value)
    part.add_header("Range", f"bytes={wanted}")
    return part


@contextmanager
def _answered(request: urllib.request.Request, name: str) -> Iterator[Any]:
    """The answer of a server, while it is read."""
    try:
        with urllib.request.build_opener(_Redirects()).open(request, timeout=SILENCE) as answer:
            yield answer
    except urllib.error.HTTPError as error:
        raise _refused(name, error) from None
    except urllib.error.URLError as error:
        raise _unreachable(name, error.reason) from None
    except (http.client.HTTPException, TimeoutError, OSError) as error:
        raise _unreachable(name, error) from None


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects, as many as the library does, but never from https to an address that is not."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        if req.type == "https" and urlsplit(newurl).scheme != "https":
            raise DataError(
                f"{shown(req.full_url)} leads to {shown(newurl)}, which is not encrypted",
                hint="give that address itself if you trust it",
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _request(url: str, name: str) -> urllib.request.Request:
    try:
        parts = urlsplit(url)
        whole = bool(parts.hostname) and parts.port != 0 and not any(character.isspace() for character in url)
    except ValueError:
        whole = False
    if not whole:
        raise DataError(f"{name!r} is not an address", hint="give https://HOST/FILE, with %20 for a space")
    host = parts.netloc.rpartition("@")[2]
    plain = urlunsplit((parts.scheme, host, parts.path, parts.query, ""))
    # the way in takes http and https only
    request = urllib.request.Request(plain, headers={"User-Agent": "holdstrue"})  # noqa: S310
    # what is compressed on the way would have no length to compare with
    request.add_header("Accept-Encoding", "identity")
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        # not sent on to where a redirect leads
        request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(pair).decode())
    return request


def _named(copies: Copies, url: str, answer: Any, name: str, given: str | None) -> tuple[Any, str]:
    """Where the copy goes and which format it has."""
    headers: Message = answer.headers
    names = [unquote(posixpath.basename(urlsplit(text).path)) for text in (url, answer.url)]
    names.insert(0, headers.get_filename() or "")
    by_name = next((one for one in names if format_by_name(one)), None)
    by_type = _TYPES.get(headers.get_content_type())
    if given is not None:
        told = format_of(copies.path("x"), given)
    elif by_name is not None:
        told = str(format_by_name(by_name))
    elif by_type is not None:
        told = by_type
    else:
        raise DataError(
            f"cannot tell the format of {name}: neither its name nor its content type "
            f"({headers.get_content_type()}) says it",
            hint=f"give the format (on the command line --input-format): one of {', '.join(FORMATS)}",
        )
    ending = next((end for one in names for end in COMPRESSIONS if one.lower().endswith(end)), "")
    encoding = (headers.get("Content-Encoding") or "identity").lower()
    if encoding not in ("identity", *_ENCODINGS) or (ending and encoding != "identity"):
        raise DataError(f"{name} is sent as {encoding}, which is not read", hint="download the file and give that")
    return copies.path(f"x.{told}{ending or _ENCODINGS.get(encoding, '')}"), told


def _refused(name: str, error: urllib.error.HTTPError) -> DataError:
    hint = {
        401: "it asks for a password: https://USER:PASSWORD@HOST/..., or download the file and give that",
        403: "access is denied: is a signature in the address too old?",
        404: "check the address",
        410: "check the address",
        429: "the server is too busy: try again later",
    }.get(error.code, "try again later" if error.code >= 500 else "check the address")
    reason = str(error.reason)
    said = f"answers {error.code} {reason}"
    # the library's own words, which go over lines or repeat an address
    if "infinite loop" in reason:
        said = "leads from redirect to redirect"
    elif "not allowed" in reason and 300 <= error.code < 400:
        said = "leads to what is not an address of the web"
    return DataError(f"{name} {said}", hint=hint)


def _unreachable(name: str, reason: object) -> DataError:
    match reason:
        case http.client.IncompleteRead():
            return DataError(f"{name} was cut short", hint="the connection broke: try again")
        case TimeoutError():
            return DataError(f"{name} does not answer", hint="check the network, or try again later")
        case ssl.SSLCertVerificationError():
            return DataError(
                f"{name} shows a certificate that is not trusted: {reason.verify_message}",
                hint="let SSL_CERT_FILE name the certificates that are",
            )
        case http.client.HTTPException() | ssl.SSLError():
            return DataError(f"{name} does not answer as a web server does: {type(reason).__name__}", hint="check it")
        case OSError():
            return DataError(f"{name} cannot be reached: {reason.strerror or reason}", hint="check the address")
        case _:
            return DataError(f"{name} cannot be reached: {reason}", hint="check the address")
