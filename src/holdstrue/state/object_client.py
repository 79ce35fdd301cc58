"""obstore in this process: loaded when it is first used, anew after a fork, with bounded patience.

obstore runs requests on threads of its own (tokio), of which none is left in a forked child: a request would wait
forever, and no new threads can be started, for the library holds one runtime. A child whose parent has loaded it
therefore loads a copy of the library, which has a runtime of its own (11 ms).
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import shutil
import sys
import tempfile
import threading
import time
import weakref
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from importlib.machinery import ExtensionFileLoader
from pathlib import Path
from typing import Any, Literal

from holdstrue.errors import StateError
from holdstrue.state.object_settings import endpoint, refuse_half, refuse_settings
from holdstrue.state.object_url import ObjectUrl

Purpose = Literal["read", "create", "create large", "upload"]


@dataclass(frozen=True)
class Patience:
    """How long one request may take in all and between two answers, and how often obstore repeats it by itself."""

    request: float
    silence: float
    repeats: int
    until: float = 12.0
    """Seconds after the first attempt after which there is no further one."""


CONNECT = 3.0
"""Seconds to connect; stores answer within tens of milliseconds. Chosen, not tuned."""

PATIENCE: dict[Purpose, Patience] = {
    # an endpoint that accepts and never answers: three attempts, 15 seconds
    "read": Patience(request=600, silence=5, repeats=5),
    # obstore repeats a conditional put after a lost answer and then reports our own object as another's (measured
    # with 0.12.1), so it must not: `ObjectStore.create` repeats and looks whose object it is
    "create": Patience(request=5, silence=5, repeats=0),
    "create large": Patience(request=60, silence=60, repeats=0),
    # silence is counted from the start of a put (measured): four parts of 8 MiB within it need 4.5 Mbit/s
    "upload": Patience(request=60, silence=60, repeats=5, until=60),
}

_INSTALL = "pip install 'holdstrue[objects]'"


class Library:
    """The obstore of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._module: Any = None
        self._file: str | None = None
        self._stale = False
        self._left: list[object] = []
        self.clients: weakref.WeakSet[Clients] = weakref.WeakSet()

    def load(self) -> Any:
        """The module, with a runtime that works in this process."""
        with self._lock:
            if self._module is None:
                require_obstore()
                self._module = self._copy() if self._stale else importlib.import_module("obstore")
            return self._module

    def forked(self) -> None:
        """In a child, leave what belongs to the parent's runtime: dropping it could wait for threads that are gone."""
        self._lock = threading.Lock()
        for clients in list(self.clients):
            self._left.extend(clients.forget())
        library = sys.modules.get("obstore._obstore")
        if library is not None:  # used by us or by others
            self._file = self._file or library.__file__
            self._left.extend(module for name, module in sys.modules.items() if _is_obstore(name))
            self._module = None
            self._stale = True

    def _copy(self) -> Any:
        """Load the library from a copy of its file, which the dynamic linker takes for another one."""
        name = "obstore._obstore"
        try:
            with tempfile.TemporaryDirectory(prefix="holdstrue-") as folder:
                loader = ExtensionFileLoader(name, shutil.copy(str(self._file), folder))
                spec = importlib.util.spec_from_loader(name, loader)
                assert spec is not None
                for old in [module for module in sys.modules if _is_obstore(module)]:
                    del sys.modules[old]
                sys.modules[name] = module = importlib.util.module_from_spec(spec)
                loader.exec_module(module)
        except (OSError, ImportError) as error:
            raise StateError(
                f"obstore cannot be loaded again in a forked process: {error}",
                hint="start processes by 'spawn' instead of 'fork', or let TMPDIR name a folder for executable files",
            ) from error
        return importlib.import_module("obstore")


def _is_obstore(name: str) -> bool:
    return name == "obstore" or name.startswith("obstore.")


def require_obstore(what: str = "states") -> None:
    """Say how to install obstore where it is missing."""
    if importlib.util.find_spec("obstore") is None:
        raise StateError(f"{what} in object stores need the package obstore, which is not installed", hint=_INSTALL)


LIBRARY = Library()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=LIBRARY.forked)


class Clients:
    """Connections to one bucket in this process, one set for each purpose, made when first used."""

    def __init__(self, place: ObjectUrl) -> None:
        self._place = place
        self._made: dict[Purpose, Any] = {}
        LIBRARY.clients.add(self)

    @staticmethod
    def at(place: ObjectUrl) -> Clients:
        """Those that this process has for a place, so that who opens a state again finds its connections open."""
        now = time.monotonic()
        key = place, _settings(os.environ)
        with _KEPT_LOCK:
            clients, made = _KEPT.pop(key, (None, now))
            if clients is None or now - made > KEPT_SECONDS:
                clients, made = Clients(place), now
            _KEPT[key] = clients, made
            while len(_KEPT) > MOST_KEPT:
                _KEPT.popitem(last=False)
        return clients

    def get(self, purpose: Purpose) -> Any:
        """The client of obstore for a purpose; takes credentials and address from the environment as it is now."""
        client = self._made.get(purpose)
        if client is None:
            client = self._made.setdefault(purpose, _connect(self._place, PATIENCE[purpose]))
        return client

    def forget(self) -> list[Any]:
        """Give up the clients, which are returned, so that the next request makes new ones."""
        made, self._made = self._made, {}
        return list(made.values())


KEPT_SECONDS = 900.0
"""After so long connections are made anew, so that credentials are seen that were changed in files meanwhile."""
MOST_KEPT = 16
"""Places to which connections are kept. Chosen, not tuned."""
_KEPT: OrderedDict[tuple[ObjectUrl, bytes], tuple[Clients, float]] = OrderedDict()
_KEPT_LOCK = threading.Lock()


def _unlock() -> None:
    """In a forked child: a thread of the parent may have held the lock. The clients forget what they had themselves."""
    global _KEPT_LOCK  # noqa: PLW0603
    _KEPT_LOCK = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_unlock)


_SETTINGS = ("AWS_", "GOOGLE_", "AZURE_", "HOME", "USERPROFILE", "HTTP", "ALL_PROXY", "NO_PROXY", "SSL_")


def _settings(environment: Mapping[str, str]) -> bytes:
    """A digest of everything in the environment that says where stores are and who asks."""
    told = sorted(item for item in environment.items() if item[0].upper().startswith(_SETTINGS))
    return hashlib.blake2b(repr(told).encode(), digest_size=16).digest()


def _connect(place: ObjectUrl, patience: Patience) -> Any:
    refuse_settings(place, os.environ)
    store = LIBRARY.load().store
    options: dict[str, Any] = {
        "connect_timeout": timedelta(seconds=CONNECT),
        "read_timeout": timedelta(seconds=patience.silence),
        "timeout": timedelta(seconds=patience.request),
    } | _transport(place, os.environ)
    retry = {
        "max_retries": patience.repeats,
        "retry_timeout": timedelta(seconds=patience.until),
        "backoff": {"init_backoff": timedelta(seconds=0.1), "max_backoff": timedelta(seconds=2), "base": 2},
    }
    common = {"prefix": place.prefix or None, "client_options": options, "retry_config": retry}
    if place.provider == "s3":
        profile = _profile(os.environ)
        if not profile:
            refuse_half(place, os.environ)
        # set here, since the environment could turn it off
        return store.S3Store(place.bucket, conditional_put="etag", **common, **profile)
    if place.provider == "gs":
        return store.GCSStore(place.bucket, **common)
    account = {} if place.account is None else {"account_name": place.account}
    return store.AzureStore(place.bucket, **common, **account)


def _transport(place: ObjectUrl, environment: Mapping[str, str]) -> dict[str, Any]:
    """Plain HTTP where the environment names an address that is, as other clients do; certificates of one's own."""
    options: dict[str, Any] = {}
    address = endpoint(place, environment)
    if address is not None and address.lower().startswith("http://"):
        options["allow_http"] = True
    bundle = environment.get("AWS_CA_BUNDLE") if place.provider == "s3" else None
    if bundle:
        try:
            options["root_certificate"] = Path(bundle).read_bytes()
        except OSError as error:
            raise StateError(
                f"the certificates for {place.url} cannot be read: AWS_CA_BUNDLE names {bundle!r}",
                hint="let AWS_CA_BUNDLE name a PEM file, or unset it",
            ) from error
    return options


_OWN_CREDENTIALS = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_SKIP_SIGNATURE",
)
"""Where obstore finds credentials for S3 by itself, before it asks the machine it runs on."""


def _profile(environment: Mapping[str, str]) -> dict[str, Any]:
    """Credentials of AWS profiles, which obstore does not read: boto3 does, if it is installed."""
    if any(environment.get(name) for name in _OWN_CREDENTIALS):
        return {}
    home = Path(environment.get("HOME") or environment.get("USERPROFILE") or "/")
    secrets = Path(environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials")
    settings = Path(environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config")
    named = environment.get("AWS_PROFILE")
    if not (named or secrets.is_file() or settings.is_file()):
        return {}
    if importlib.util.find_spec("boto3") is None:
        if not (named or secrets.is_file()):
            return {}  # settings without secrets, as on a machine with a role of its own
        raise StateError(
            f"credentials of AWS profiles ({'AWS_PROFILE' if named else secrets.name}) are read by boto3, "
            "which is not installed",
            hint="pip install boto3, or put them in the environment: "
            'eval "$(aws configure export-credentials --format env)"',
        )
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return {"credential_provider": Boto3CredentialProvider()}
    except BotoCoreError as error:
        raise StateError(
            f"credentials of the AWS profile {named or 'default'!r} cannot be read: {type(error).__name__}",
            hint="see what `aws configure list` says, or set AWS_PROFILE",
        ) from None
    except ValueError:
        return {}  # profiles without credentials: the machine may have some
