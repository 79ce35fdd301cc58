"""What is done to the files below a folder, counted, with harm by plan: the file system's `FaultProxy`.

    with FaultCalls(folder) as calls:
        calls.plan({3: Fail(errno.ENOSPC)})       # the third call from now fails, and does nothing
        calls.plan({4: Fail(errno.EIO, after=True)})    # ... is done, and then reported as failed
        calls.plan({2: Short()})                  # writes half of what it was given, which is no error
        calls.plan({2: Torn(errno.ENOSPC)})       # writes half, and fails
        calls.plan({5: Interrupt()})              # KeyboardInterrupt
        calls.plan({n: Die()})                    # the process is killed (SIGKILL)

Counted are the calls that change something, from 1 on: making a file or folder, write, fsync, fdatasync, ftruncate,
unlink, rename. Arrow's files are written through `os.write`, too, as long as it lasts.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from unittest import mock

import pyarrow as pa

from holdstrue.state import segment


@dataclass(frozen=True)
class Fail:
    """The system says that it did not work; with `after`, though it did."""

    number: int
    after: bool = False


@dataclass(frozen=True)
class Short:
    """A write takes half of what it was given, and says so; other calls are as always."""


@dataclass(frozen=True)
class Torn:
    """A write takes half of what it was given, and fails; other calls fail."""

    number: int


@dataclass(frozen=True)
class Interrupt:
    """Somebody presses Ctrl-C; only the main thread hears of it."""

    after: bool = False


@dataclass(frozen=True)
class Die:
    """The process is killed."""

    after: bool = False


CallFault = Fail | Short | Torn | Interrupt | Die

_BY_HANDLE = ("write", "pwrite", "fsync", "fdatasync", "ftruncate")
_BY_PATH = ("unlink", "remove", "rename", "replace", "mkdir", "rmdir")


class FaultCalls:
    """Stands between this process and the files below a folder; see the module."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = os.path.abspath(folder)  # noqa: PTH100  # links in it are as given
        self._plan: Mapping[int, CallFault] = {}
        self._handles: dict[int, str] = {}
        self._lock = threading.Lock()
        self.made: list[str] = []
        """The calls since the last plan, as `write log/000000000000.log`."""
        self._patches: list[Any] = []

    def plan(self, faults: Mapping[int, CallFault] | None = None) -> None:
        """Do this to the calls from now on."""
        with self._lock:
            self._plan = dict(faults or {})
            self.made = []

    def __enter__(self) -> Self:
        swaps: list[tuple[Any, str, Any]] = [
            (os, "open", self._open(os.open)),
            (os, "close", self._close(os.close)),
            *((os, name, self._by_handle(name, getattr(os, name))) for name in _BY_HANDLE if hasattr(os, name)),
            *((os, name, self._by_path(name, getattr(os, name))) for name in _BY_PATH),
            (pa, "OSFile", _arrow_file),
        ]
        for module, name, swap in swaps:
            self._patches.append(mock.patch.object(module, name, swap))
            self._patches[-1].start()
        # looked up when it was imported
        self._patches.append(mock.patch.object(segment, "_sync_data", getattr(os, "fdatasync", os.fsync)))
        self._patches[-1].start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for patch in reversed(self._patches):
            patch.stop()
        self._patches = []

    # --- calls ---------------------------------------------------------------------------------

    def _inside(self, path: Any) -> str | None:
        """The path of something in the folder, from there."""
        if not isinstance(path, str | os.PathLike):
            return None
        full = os.path.abspath(os.fspath(path))  # noqa: PTH100
        if full == self.folder:
            return "."
        return full[len(self.folder) + 1 :] if full.startswith(self.folder + os.sep) else None

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            inside = self._inside(path)
            if inside is None:
                return real(path, flags, *args, **kwargs)
            makes = flags & os.O_CREAT and not Path(path).exists()
            handle: int = (
                self._harmed(f"open {inside}", lambda: real(path, flags, *args, **kwargs))
                if makes
                else real(path, flags, *args, **kwargs)
            )
            self._handles[handle] = inside
            return handle

        return call

    def _close(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(handle: int) -> None:
            self._handles.pop(handle, None)
            real(handle)

        return call

    def _by_handle(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(handle: Any, *args: Any) -> Any:
            inside = self._handles.get(handle)
            if inside is None:
                return real(handle, *args)
            writes = name in ("write", "pwrite")
            short = None
            if writes:
                data, *at = args
                short = partial(real, handle, memoryview(data)[: max(1, len(data) // 2)], *at)
            return self._harmed(f"{'write' if writes else name} {inside}", partial(real, handle, *args), short)

        return call

    def _by_path(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            inside = self._inside(path)
            if inside is None:
                return real(path, *args, **kwargs)
            return self._harmed(f"{name} {inside}", lambda: real(path, *args, **kwargs))

        return call

    def _harmed(self, what: str, do: Callable[[], Any], short: Callable[[], Any] | None = None) -> Any:
        with self._lock:
            self.made.append(what)
            fault = self._plan.get(len(self.made))
        match fault:
            case Fail(number, after):
                if after:
                    do()
                raise OSError(number, os.strerror(number))
            case Torn(number):
                if short is not None:
                    short()
                raise OSError(number, os.strerror(number))
            case Short() if short is not None:
                return short()
            case Interrupt(after) if threading.current_thread() is threading.main_thread():
                if after:
                    do()
                raise KeyboardInterrupt
            case Die(after):
                if after:
                    do()
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)  # another thread may be the one that the signal reaches first
        return do()


_BUFFER = 4096
"""Bytes of an Arrow file that one call writes at least, so that there are fewer calls to try."""


class _Written:
    """A file that is written by calls that are counted."""

    def __init__(self, path: str) -> None:
        self._handle: int | None = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        self._held = bytearray()
        self._at = 0

    def write(self, data: bytes) -> int:
        self._held += memoryview(data).cast("B")
        self._at += len(data)
        if len(self._held) >= _BUFFER:
            self._flush()
        return len(data)

    def _flush(self) -> None:
        left = memoryview(bytes(self._held))
        self._held.clear()
        while left and self._handle is not None:
            left = left[os.write(self._handle, left) :]

    def tell(self) -> int:
        return self._at

    def flush(self) -> None:
        """What is held back is written when the file is closed."""

    def close(self) -> None:
        if self._handle is not None:
            try:
                self._flush()
            finally:
                handle, self._handle = self._handle, None
                os.close(handle)

    @property
    def closed(self) -> bool:
        return self._handle is None


def _arrow_file(path: str, mode: str) -> pa.NativeFile:
    if mode != "wb":
        raise ValueError(f"mode {mode!r}: only files that are written are made here")
    return pa.PythonFile(_Written(path), mode="w")
