"""What goes wrong with object stores, in words of ours: obstore's hold whole addresses and what a server sent."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from holdstrue.errors import StateError
from holdstrue.state.object_client import LIBRARY
from holdstrue.state.object_settings import endpoint
from holdstrue.state.object_url import ObjectUrl

_STATUS = re.compile(r"non-2xx status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>|\"(?:code|reason|error)\": ?\"([A-Za-z_]{1,60})\"")
_KIND = re.compile(r"HttpError \{\s*kind: ([A-Za-z]+)")
_METADATA = re.compile(r"169\.254\.|fd00:ec2|metadata|token request|/oauth2/|sts\.[a-z0-9.\-]*amazonaws")

_SECRETS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE with boto3 installed",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS, or run: gcloud auth application-default login",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY, or AZURE_USE_AZURE_CLI=true",
}
_REFUSED_KEYS = frozenset(
    [
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "TokenRefreshRequired",
        "AuthenticationFailed",
        "InvalidAuthenticationInfo",
    ]
)


_WORDS = ("BadScheme", "MissingAccount", "without LOCATION", "bucket does not exist")
_PASSING = frozenset([408, 409, 429, 500, 502, 503, 504])
_UNTRIED = frozenset(["NotSupportedError", "UnknownConfigurationKeyError", "InvalidPathError"])


@dataclass(frozen=True)
class Trouble:
    """What can be told from an error of obstore without repeating its text.

    Parameters
    ----------
    status
        Of the server's answer; 0 where there was none.
    code
        The store's own name of the error (`NoSuchBucket`), or empty.
    kind
        What happened to a request that has no answer: `Connect`, `Timeout`, `Request`, ...
    words
        Which of the phrases that say more were found in the text.
    credentials
        Whether it was about getting credentials and not about the store.
    """

    name: str
    status: int
    code: str
    kind: str
    words: frozenset[str]
    credentials: bool

    @staticmethod
    def of(error: Exception) -> Trouble:
        """Read an error of obstore."""
        text = str(error)
        status, code, kind = _STATUS.search(text), _CODE.search(text), _KIND.search(text)
        request = text.split("non-2xx", 1)[0].split("Debug source", 1)[0]
        return Trouble(
            type(error).__name__,
            int(status[1]) if status else 0,
            next(filter(None, code.groups())) if code else "",
            kind[1] if kind else "",
            frozenset(word for word in _WORDS if word in text),
            _METADATA.search(request) is not None,
        )

    @property
    def passing(self) -> bool:
        """Whether the same request may succeed a moment later."""
        if self.credentials or "BadScheme" in self.words:
            return False
        return bool(self.kind) or self.status in _PASSING or self.code == "RequestTimeout"

    @property
    def undone(self) -> bool:
        """Whether the store has certainly not done what it was asked."""
        refused = 400 <= self.status < 500 or self.status == 501
        untried = self.credentials or self.kind == "Connect" or "BadScheme" in self.words or self.name in _UNTRIED
        return refused or untried

    @property
    def no_bucket(self) -> bool:
        """Whether it is the bucket that does not exist, and not an object of it."""
        told = self.code in ("NoSuchBucket", "ContainerNotFound") or "bucket does not exist" in self.words
        return self.status == 404 and told

    def explain(self, place: ObjectUrl, doing: str) -> StateError:
        """It as an error of ours.

        Parameters
        ----------
        doing
            What was tried, to follow "cannot": `read log/000000000012 of`.
        """
        why, hint = _why(self, place)
        error = StateError(f"cannot {doing} {place.url}: {why}", hint=hint)
        error.passing = self.passing
        return error


def raised_by_obstore(error: Exception) -> bool:
    """Whether an error comes from obstore, which also raises built-in ones."""
    return isinstance(error, (LIBRARY.load().exceptions.BaseError, FileNotFoundError, PermissionError, ValueError))


def is_panic(error: BaseException) -> bool:
    """Whether obstore came to an end inside, which is none of Python's errors (`pyo3_runtime.PanicException`)."""
    return type(error).__name__ == "PanicException"


def explain_panic(place: ObjectUrl, doing: str) -> StateError:
    """It as an error of ours, without its text: nobody knows what it holds."""
    return StateError(
        f"cannot {doing} {place.url}: obstore failed inside",
        hint="check the settings of the store in the environment (AWS_..., GOOGLE_..., AZURE_...)",
    )


def _why(trouble: Trouble, place: ObjectUrl) -> tuple[str, str]:
    secrets = f"set {_SECRETS[place.provider]}"
    at = endpoint(place, os.environ)
    where = f"the store at {at}" if at else "the store"
    told = " ".join(filter(None, [str(trouble.status or ""), trouble.code]))
    if trouble.credentials:
        return "no credentials were found in the environment, and this machine gives none", secrets
    if "MissingAccount" in trouble.words:
        return "no account of Azure is named", "set AZURE_STORAGE_ACCOUNT_NAME"
    if trouble.code in _REFUSED_KEYS or trouble.status == 401:
        return f"{where} does not accept the credentials ({told})", f"check them, and the clock: {secrets}"
    if trouble.code in ("AuthorizationHeaderMalformed", "PermanentRedirect") or "without LOCATION" in trouble.words:
        return f"bucket {place.bucket!r} is in another region", "set AWS_REGION to the bucket's region"
    if trouble.status == 403:
        return (
            f"access is denied ({told})",
            "the credentials need to read, write, list and delete in this folder of the bucket",
        )
    if trouble.no_bucket:
        return f"there is no bucket {place.bucket!r} ({told})", "make the bucket first, or check its name and region"
    if trouble.status == 404:
        return f"the store does not find it ({told})", "check the address and the bucket"
    if trouble.status == 501 or trouble.name == "NotSupportedError":
        return f"{where} lacks what states need ({told})", "use a store that supports conditional puts (If-None-Match)"
    if trouble.status in _PASSING:
        return f"{where} fails or is too busy ({told})", "try again later"
    if "BadScheme" in trouble.words:
        return "its address is plain HTTP", "give an https:// address"
    if trouble.kind == "Connect":
        return (
            f"{where} cannot be reached",
            "check the network" + (", and AWS_ENDPOINT_URL" if place.provider == "s3" else ""),
        )
    if trouble.kind == "Timeout":
        return f"{where} does not answer", "check the network, or try again later"
    if trouble.kind:
        return f"the connection to {where} broke", "check the network, or try again later"
    if trouble.status:
        return f"{where} refuses ({told})", "check the settings of the store in the environment"
    return (
        f"obstore gives up ({trouble.name})",
        "check the settings of the store in the environment (AWS_..., GOOGLE_..., AZURE_...)",
    )
