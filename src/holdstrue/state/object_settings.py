"""Settings of object stores in the environment, looked at before obstore is given them.

With some that cannot be, obstore does not fail but panics, with a backtrace on standard error (0.12.1: an address
that is none, a character in a key that HTTP cannot send). What is wrong is named here, and never repeated where it
may be secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urlsplit

from holdstrue.errors import StateError
from holdstrue.state.object_url import ObjectUrl, Provider

_OWN: dict[Provider, str] = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}

_ADDRESSES: dict[Provider, tuple[str, ...]] = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}

_LOCAL = re.compile(r"_(FILE|BUNDLE|PROFILE|CREDENTIALS|PATH|SERVICE_ACCOUNT|SERVICE_ACCOUNT_KEY)$")
"""What is for this machine or JSON: paths may hold any letter, keys of Google are texts of many lines."""
_SENT = re.compile(r"[\x20-\x7e]*")
"""What HTTP can send in a header."""


def endpoint(place: ObjectUrl, environment: Mapping[str, str]) -> str | None:
    """The address that the environment names for a store, as scheme, host and port; None for the provider's own.

    >>> endpoint(ObjectUrl.of("s3://bucket/state"), {"AWS_ENDPOINT_URL": "http://user:secret@127.0.0.1:9000/?a=b"})
    'http://127.0.0.1:9000'
    """
    told = next((environment[name] for name in _ADDRESSES[place.provider] if environment.get(name)), None)
    if told is None:
        return None
    parts = urlsplit(told)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def refuse_settings(place: ObjectUrl, environment: Mapping[str, str]) -> None:
    """Refuse settings with which no request can be made.

    >>> refuse_settings(ObjectUrl.of("s3://bucket/state"), {"AWS_ENDPOINT_URL": "minio:9000"})
    Traceback (most recent call last):
    holdstrue.errors.StateError: s3://bucket/state cannot be reached: AWS_ENDPOINT_URL is 'minio:9000', which is no ...
    hint: let AWS_ENDPOINT_URL be like https://HOST or http://HOST:PORT, or unset it
    """
    for name, value in environment.items():
        if name.startswith(_OWN[place.provider]) and not _LOCAL.search(name) and not _SENT.fullmatch(value):
            raise StateError(
                f"{place.url} cannot be reached: {name} holds a line break or another character that cannot be sent",
                hint=f"set {name} again, in plain ASCII and without line breaks",
            )
    for name in _ADDRESSES[place.provider]:
        if environment.get(name) and not _is_address(environment[name]):
            raise StateError(
                f"{place.url} cannot be reached: {name} is {_shown(environment[name])}, which is no address",
                hint=f"let {name} be like https://HOST or http://HOST:PORT, or unset it",
            )


def refuse_half(place: ObjectUrl, environment: Mapping[str, str]) -> None:
    """Refuse one half of a key of S3 without the other."""
    pair = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"
    lacking = [name for name in pair if not environment.get(name)]
    if place.provider == "s3" and len(lacking) == 1:
        [given] = set(pair) - set(lacking)
        raise StateError(
            f"{place.url} cannot be reached: {given} is set and {lacking[0]} is not",
            hint=f"set {lacking[0]}, or unset {given} to use a profile or the role of this machine",
        )


def _is_address(text: str) -> bool:
    """Whether text is the address of a server.

    >>> [_is_address(t) for t in ("http://127.0.0.1:9000", "https://a.b/c", "a.b", "http://", "http://a:99999")]
    [True, True, False, False, False]
    """
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return False
    return parts.scheme.lower() in ("http", "https") and bool(parts.hostname) and " " not in text


def _shown(text: str) -> str:
    return "something with '@' or '?'" if re.search(r"[@?]", text) else repr(text[:80])
