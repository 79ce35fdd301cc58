"""Sites that are processes of their own, as one that brings a batch to all of them reaches them.

A call carries its session and its number in it: one that is repeated, because the answer was lost, is answered
again and not done again; one that comes late is refused. Messages go from site to site; who brings the batch sees
only how many.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.channel import Channel, Traffic
from holdstrue.fragments.frames import SiteBusyError, SlowError, UnreachableError, framed, raised, unframed
from holdstrue.fragments.indexed_rows import keys_by_cfd
from holdstrue.fragments.site_host import SiteHost
from holdstrue.shards.wire import pack

Carry = Callable[[str, bytes], bytes]
"""Brings a frame to a site and its answer back; an `UnreachableError` when that fails, or may have."""

PATIENCE = 10.0
"""Seconds for which a site that does not answer is called again. Chosen, not tuned."""
LONGEST = 3600.0
"""Seconds after which a site that is there, but has not done what it was told, is given up. Chosen, not tuned."""
_PAUSE = 0.05
_SESSION_BYTES = 12
"""A session's name is in every word of it."""


def called(carry: Carry, site: str, frame: bytes, patience: float = PATIENCE) -> tuple[dict[str, Any], bytes]:
    """Call a site until it answers; an error that it answers with is raised. Without patience it is called once."""
    start = time.monotonic()
    end = start + patience
    pause = _PAUSE
    while True:
        try:
            head, body = unframed(carry(site, frame))
        except SlowError:
            if not patience or time.monotonic() - start > LONGEST:
                raise
            carry(site, framed({"verb": "bringing"}))  # which it answers at once, if it is there
            continue
        except UnreachableError:
            if time.monotonic() + pause > end:
                raise
            time.sleep(pause)
            pause = min(2 * pause, 1.0)
            continue
        raised(head)
        return head, body


def packed_answer(answer: Any) -> bytes:
    """What a site answers, as a frame."""
    if isinstance(answer, np.ndarray):
        return framed({"kind": "mask"}, answer.astype(np.bool_).tobytes())
    if isinstance(answer, pa.Table):
        return framed({"kind": "keys"}, pack(answer).to_pybytes())
    return framed({"kind": "json", "answer": answer})


def answer_of(head: Mapping[str, Any], body: bytes) -> Any:
    """Back from `packed_answer`."""
    match head.get("kind"):
        case "mask":
            return np.frombuffer(body, dtype=np.bool_).copy()
        case "keys":
            return keys_by_cfd(pa.ipc.open_stream(pa.BufferReader(body)).read_all())
        case "json":
            return head["answer"]
        case kind:
            raise HoldstrueError(f"a site answered with {kind!r}", hint="do all sites run the same version?")


class RemoteHost(SiteHost):
    """Sites by name, each reached by calls of one session."""

    def __init__(self, here: str, sites: Iterable[str], carry: Carry, patience: float = PATIENCE) -> None:
        super().__init__({})
        self._here = here
        self._names = tuple(sites)
        self._carry, self._patience = carry, patience
        self.session = secrets.token_urlsafe(_SESSION_BYTES)
        self._turns = dict.fromkeys(self._names, 0)
        self._parting: list[Any] = []
        # a batch is some ten calls to each: threads that begin and end with every call would cost more than these
        self._callers = ThreadPoolExecutor(max_workers=max(len(self._names), 1))

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the sites."""
        return self._names

    def enter(self, site: str, batch: str = "") -> Any:
        """Get a site for this session, and wait a while for another one to end; what it says of itself and a batch."""
        end = time.monotonic() + self._patience
        while True:
            try:
                return self.ask(site, "enter", self._here, batch)
            except SiteBusyError:
                if time.monotonic() + _PAUSE > end:
                    raise
                time.sleep(_PAUSE)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        """Let one site do something, once however often it has to be called."""
        self._turns[site] += 1
        told = {"verb": verb, "session": self.session, "turn": self._turns[site]}
        body = b""
        given = list(args)
        if given and isinstance(given[-1], pa.Table):
            body = pack(given.pop()).to_pybytes()
        more = {name: value for name, value in (("args", given), ("table", bool(body))) if value}
        frame = framed(told | more, body)
        return answer_of(*called(self._carry, site, frame, self._patience))

    def each(self, verb: str, args: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """Let sites do the same thing at the same time."""
        start = time.perf_counter()
        try:
            running = {site: self._callers.submit(self.ask, site, verb, *own) for site, own in args.items()}
            wait(running.values())
            return {site: job.result() for site, job in running.items()}
        finally:
            self.elapsed += time.perf_counter() - start

    def round(self, channel: Channel, verb: str, *args: Any) -> None:
        """Let all sites send to each other; the channel counts."""
        for source, sent in self.all("send", verb, *args).items():
            for target, messages, ids, size in sent:
                self.note(source, target, messages)
                channel.add(source, target, Traffic(messages, ids, size))

    def release(self, batch: str) -> None:
        """Have sites forget what they keep to answer for a batch, with the last word of the session."""
        self._parting = [batch]

    def close(self) -> None:
        """End the session at every site that still hears of it."""
        for site in self.sites:
            try:
                self._turns[site] += 1
                told = {"verb": "leave", "session": self.session, "turn": self._turns[site], "args": self._parting}
                called(self._carry, site, framed(told), 0.0)
            except HoldstrueError:
                continue  # it ends the session by itself when it hears nothing for a while
        self._callers.shutdown()
