"""URLs of object stores: what they name, and what is refused before it could reach a log."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Literal

from holdstrue.errors import StateError

Provider = Literal["s3", "gs", "az"]

_PROVIDERS: dict[str, Provider] = {
    "s3": "s3", "s3a": "s3", "s3n": "s3",
    "gs": "gs", "gcs": "gs",
    "az": "az", "azure": "az", "abfs": "az", "abfss": "az",
}  # fmt: skip

# a single slash is what pathlib makes of two
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]*):/{1,2}(?=[^/])(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,221}")
_ACCOUNT = re.compile(r"([A-Za-z0-9$][A-Za-z0-9\-]*)@([a-z0-9]+)\.(?:dfs|blob)\.core\.windows\.net")
_SEGMENT = re.compile(r"[^\x00-\x1f\x7f%?#\\/]+")


def is_object_url(text: str | os.PathLike[str]) -> bool:
    """Whether a path or URL names a place in an object store.

    >>> is_object_url("s3://bucket/state"), is_object_url("state"), is_object_url("file:///state")
    (True, False, False)
    """
    found = _URL.match(os.fspath(text))
    return found is not None and found[1].lower() in _PROVIDERS


@dataclass(frozen=True)
class ObjectUrl:
    """A folder of a bucket.

    Parameters
    ----------
    url
        As it is shown to people: without credentials, query or closing slash.
    account
        Of Azure, where the URL names it; otherwise the environment does.

    Examples
    --------
    >>> ObjectUrl.of("s3://bucket/orders/state/")
    ObjectUrl(url='s3://bucket/orders/state', provider='s3', bucket='bucket', prefix='orders/state', account=None)
    >>> ObjectUrl.of("abfss://files@acme.dfs.core.windows.net/state").account
    'acme'
    >>> ObjectUrl.of("s3://KEY:SECRET@bucket/state")
    Traceback (most recent call last):
    holdstrue.errors.StateError: the s3:// URL of the state holds credentials, or something like them, before its bucket
    hint: give s3://BUCKET/FOLDER and put credentials in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)
    """

    url: str
    provider: Provider
    bucket: str
    prefix: str
    account: str | None = None

    @staticmethod
    def of(text: str | os.PathLike[str], what: str = "state") -> ObjectUrl:
        """Read a URL; what could hold a secret is refused without being repeated. `what` is to lie there."""
        text = os.fspath(text)
        found = _URL.match(text)
        if found is None or found[1].lower() not in _PROVIDERS:
            shown = (
                repr(text) if found is None and "://" not in text else f"a URL that starts with {text.split(':')[0]}:"
            )
            raise StateError(
                f"{shown} does not name an object store",
                hint="give s3://BUCKET/FOLDER, gs://BUCKET/FOLDER or az://CONTAINER/FOLDER "
                "(S3-compatible stores: s3:// and their address in AWS_ENDPOINT_URL)",
            )
        scheme = found[1].lower()
        provider = _PROVIDERS[scheme]
        authority, _, path = found[2].partition("/")
        bucket, account = _bucket(scheme, provider, authority, what)
        if re.search(r"[?#]", found[2]):
            raise StateError(
                f"the {scheme}:// URL of the {what} holds a query or a fragment",
                hint=f"give {scheme}://{bucket}/FOLDER; signatures and tokens belong into the environment",
            )
        segments = path.rstrip("/").split("/") if path.rstrip("/") else []
        if wrong := [part for part in segments if part in (".", "..") or not _SEGMENT.fullmatch(part)]:
            raise StateError(
                f"the folder of {scheme}://{authority}/... has a part {wrong[0]!r}",
                hint="a part is not empty, '.' or '..', and holds no '%', '\\' or control character",
            )
        url = "/".join([f"{scheme}://{authority}", *segments])
        return ObjectUrl(url, provider, bucket, "/".join(segments), account)


def _bucket(scheme: str, provider: Provider, authority: str, what: str) -> tuple[str, str | None]:
    """The bucket that stands in a URL before its first slash, and the account of Azure."""
    if provider == "az" and (found := _ACCOUNT.fullmatch(authority)):
        return found[1], found[2]
    example = {
        "s3": "s3://BUCKET/FOLDER and put credentials in the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY)",
        "gs": "gs://BUCKET/FOLDER and put credentials in the environment (GOOGLE_APPLICATION_CREDENTIALS)",
        "az": "az://CONTAINER/FOLDER or abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/FOLDER and put credentials in "
        "the environment (AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY)",
    }[provider]
    if "@" in authority or ":" in authority:
        raise StateError(
            f"the {scheme}:// URL of the {what} holds credentials, or something like them, before its bucket",
            hint=f"give {example}",
        )
    if not _BUCKET.fullmatch(authority):
        # a query may start here
        shown = re.split(r"[?#]", authority)[0]
        raise StateError(f"the {scheme}:// URL of the {what} names no bucket: {shown!r}", hint=f"give {example}")
    return authority, None
