"""Which faults of a source may pass by themselves: a server that is down, a connection that broke, a database in use.

This is the one place that tells them from those that last (bad SQL, a missing table, a wrong password, 404). It looks
at what a library raised, which our errors keep as their cause or context; who knows it without such an error (states
in object stores) sets `passing` of the error itself.
"""

from __future__ import annotations

import errno
import http.client
import re
import socket
import sqlite3
import ssl
import urllib.error

_PASSING_ERRNO = frozenset([
    errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.ETIMEDOUT, errno.EHOSTUNREACH,
    errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET, errno.EAGAIN, errno.ESTALE,
])  # fmt: skip
"""What the network says; a network drive that lost a file handle is part of it."""

_PASSING_STATUS = frozenset([408, 425, 429])
"""Answers of web servers below 500 that ask to come again."""

_SQLITE_BUSY = frozenset([5, 6, 15])
"""Busy, locked, and a race for the lock of a write-ahead log."""

_SQLSTATE = re.compile(r"08...|53...|57P0[1-5]|40001|40P01|55P03")
"""Connections, resources, a server that shuts down or starts, conflicts with others, a lock that is not available."""

_WORDS = re.compile(
    r"connection (?:was )?(?:refused|reset|aborted|closed)|broken pipe|timed? ?out|timeout expired|no route to host"
    r"|network is (?:unreachable|down)|temporary failure in name resolution|temporarily unavailable|service unavailable"
    r"|is the server running|server closed the connection|could not (?:receive|send) data|ssl syscall error"
    r"|terminating connection|(?:starting up|shutting down|in recovery mode)|too many (?:clients|connections|requests)"
    r"|connection slots|error sending request|could ?n[o']t connect|network_connection|slow_?down|internal_failure"
    r"|service_unavailable|could not set lock|bad gateway|(?:status|code|error)[: ]+(?:50[0234]|429)\b",
    re.IGNORECASE,
)
"""How libraries say in words alone that something may pass: libpq, object_store, Arrow's file systems, DuckDB."""

_REMOTE = ("adbc_driver_manager", "deltalake", "_internal", "pyiceberg", "requests", "urllib3", "duckdb", "_duckdb")
"""Libraries whose errors are told by what they say."""


def may_pass(error: BaseException) -> bool:
    """Whether the same may succeed a moment later.

    >>> may_pass(ConnectionRefusedError("refused")), may_pass(FileNotFoundError("t.csv"))
    (True, False)
    """
    seen: set[int] = set()
    at: BaseException | None = error
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        found = _verdict(at)
        if found is not None:
            return found
        at = at.__cause__ or at.__context__
    return False


def _verdict(error: BaseException) -> bool | None:
    """What one error says about it; None where it says nothing."""
    if getattr(error, "passing", False):
        return True
    match error:
        case urllib.error.HTTPError():
            return error.code >= 500 or error.code in _PASSING_STATUS
        case urllib.error.URLError():
            return _verdict(error.reason) if isinstance(error.reason, BaseException) else False
        case ssl.SSLError():
            return isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError)
        case socket.gaierror():
            return error.errno == socket.EAI_AGAIN
        case http.client.IncompleteRead() | ConnectionError() | TimeoutError():
            return True
        case sqlite3.Error():
            # codes have a detail in their upper bytes
            return getattr(error, "sqlite_errorcode", 0) & 0xFF in _SQLITE_BUSY
        case OSError() if error.errno is not None:
            return error.errno in _PASSING_ERRNO
    if isinstance(error, OSError) or type(error).__module__.split(".")[0] in _REMOTE:
        return _by_words(error)
    if type(error).__module__.startswith("obstore"):
        from holdstrue.state.object_errors import Trouble

        return Trouble.of(error).passing if isinstance(error, Exception) else False
    return None


def _by_words(error: BaseException) -> bool:
    state = getattr(error, "sqlstate", None)
    if isinstance(state, str) and state.strip("\0 "):
        return _SQLSTATE.fullmatch(state) is not None
    return _WORDS.search(str(error)) is not None
