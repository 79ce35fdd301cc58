"""Laws of crashes and faults: nothing is lost, nothing is doubled, and what an error says of a batch is true.

Every work is stopped at every call to the file system, and at every request to an object store: killed before and
after it, told that it failed, interrupted, done twice or not answered. The suite takes a sample of these cases, always
the same; HOLDSTRUE_CRASHES=all takes all of them (scripts/faults does).
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import signal
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar
from unittest import mock

import pytest

from fault_calls import CallFault, Fail, FaultCalls, Interrupt, Short, Torn
from fault_proxy import Answer, Cut, Drop, Fault, FaultProxy, Kill, Repeat
from holdstrue.errors import HoldstrueError
from holdstrue.state import object_client, objects
from laws.beside import Played
from laws.crash_process import Child, CrashProcess
from laws.crashes import WORKS, Work, assert_settled, patched, quiet_close
from objects import Moto, environment
from places import Buckets, Folders, Places

ALL = os.environ.get("HOLDSTRUE_CRASHES") == "all"

CALL_FAULTS: Sequence[CallFault] = (
    Fail(errno.ENOSPC),
    Fail(errno.EIO),
    Fail(errno.EIO, after=True),
    Torn(errno.ENOSPC),
    Short(),
    Interrupt(),
    Interrupt(after=True),
)
LASTING_CALL_FAULTS: Sequence[CallFault] = (Fail(errno.ENOSPC), Fail(errno.EIO), Fail(errno.EIO, after=True))
REQUEST_FAULTS: Sequence[Fault] = (
    Drop(),
    Drop(before=True),
    Repeat(),
    Answer(503),
    Answer(503, done=True),
    Cut(),
)
LASTING_REQUEST_FAULTS: Sequence[Fault] = (Drop(), Drop(before=True), Answer(503), Answer(503, done=True))
MANY = 10_000
"""More calls or requests than any work makes."""

Case = TypeVar("Case")


@pytest.fixture(scope="module")
def process() -> Iterator[CrashProcess]:
    """Has children that are killed."""
    with CrashProcess() as found:
        yield found


def works(*, local: bool) -> list[Work]:
    return [work for work in WORKS.values() if local or not work.local_only]


def sampled(cases: Sequence[Case], most: int, seed: object) -> Sequence[Case]:
    """A few of them, the same every time; or all."""
    return cases if ALL or len(cases) <= most else random.Random(str(seed)).sample(cases, most)


def tried(what: str, cases: Sequence[Case], attempt: Callable[[Case], None]) -> None:
    """Try all cases, and tell of every one that is not as it must be."""
    wrong = []
    for case in cases:
        try:
            attempt(case)
        except (AssertionError, HoldstrueError, OSError) as error:
            where = "".join(traceback.format_exception(error)[-3:])
            wrong.append(f"{case}: {type(error).__name__}: {error}\n{where if ALL else ''}")
    print(f"{what}: {len(cases)} cases, {len(wrong)} wrong")
    assert not wrong, "\n".join([f"{len(wrong)} of {len(cases)} are wrong", *wrong])


# --- what errors say -----------------------------------------------------------------------------


def claim(error: HoldstrueError) -> str:
    """What an error says of the batch: it is out, or in, or how to find out."""
    text = str(error)
    said = {
        "out": "nothing was committed" in text,
        "in": "every batch up to now is kept" in text,
        "ask": " not known" in error.message and "again" in (error.hint or ""),
    }
    assert sum(said.values()) == 1, f"says {[what for what, says in said.items() if says]} of the batch: {text!r}"
    return next(what for what, says in said.items() if says)


def assert_honest(work: Work, place: str, error: BaseException | None, done: int, held: list[Any]) -> None:
    """What was said is true, and what is open is as the state is, or says that it is not."""
    stages = work.stages
    at, partly = work.reached(place)
    if error is None:
        assert at == len(stages) - 1, "no error, and yet a batch is missing"
        return
    if isinstance(error, KeyboardInterrupt):
        assert at in (done, done + 1)
    else:
        assert isinstance(error, HoldstrueError), f"an error that says nothing of the batch: {error!r}"
        if len(stages) > 1 and (held or stages[0] is None):  # else no batch was at hand
            said = claim(error)
            if done == len(stages) - 1:
                assert said == "in", f"all batches are in, and it says {said!r}: {error}"
            assert {"out": at == done and not partly, "in": at == len(stages) - 1, "ask": at in (done, done + 1)}[
                said
            ], f"said {said!r} at stage {at} after {done}: {error}"
    if held and done < len(stages) - 1:
        try:
            work.again(held[0], done)
        except HoldstrueError as second:
            assert "open the " in (second.hint or "") and "again" in (second.hint or ""), f"no way out: {second}"
        else:
            assert work.reached(place) == (done + 1, False), "applied again, it is not as it should be"
            assert work.held_look(held[0]) == work.stage_of(stages[done + 1]), "memory is not as the state is"


def harmed(work: Work, places: Places, place: str, mend: Callable[[], None]) -> None:
    """Do some work that meets a fault, look whether what is said is true, and go on with the state."""
    held: list[Any] = []
    done = 0
    error: BaseException | None = None

    def told() -> None:
        nonlocal done
        done += 1

    with mock.patch("holdstrue.monitor.checkpoint.subprocess.Popen", Played), quiet_close(held):
        try:
            work.run(place, held, told)
        except (Exception, KeyboardInterrupt) as raised:  # noqa: BLE001  looked at below
            error = raised
        mend()
        assert_honest(work, place, error, done, held)
    assert_settled(work, places, place, done)


# --- a directory ---------------------------------------------------------------------------------


def calls_of(work: Work, places: Folders, base: dict[str, bytes]) -> list[str]:
    """The calls that the work makes."""
    place = places.filled(base)
    with (
        FaultCalls(place) as calls,
        mock.patch("holdstrue.monitor.checkpoint.subprocess.Popen", Played),
    ):
        work.run(place, [], lambda: None)
        made = list(calls.made)
    assert_settled(work, places, place, len(work.stages) - 1)
    return made


def turning(made: Sequence[str]) -> list[int]:
    """Which calls are not in the middle of others that are the same; from 1 on."""
    last = len(made) - 1
    return [i + 1 for i, what in enumerate(made) if ALL or i in (0, last) or not made[i - 1] == what == made[i + 1]]


@pytest.mark.parametrize("work", works(local=True), ids=str)
def test_killed_at_any_call(work: Work, tmp_path: Path, process: CrashProcess) -> None:
    places = Folders(tmp_path)
    base = prepared(work, places)
    made = calls_of(work, places, base)

    def attempt(die: int) -> None:
        place = places.filled(base)
        child = process.run(work.name, place, die=die)
        assert child.code in (0, -signal.SIGKILL), child.trouble
        assert_settled(work, places, place, child.done)

    tried(f"killed at a call, {work}", sampled([*turning(made), len(made) + 1], 4, work), attempt)


def test_killed_while_writing_a_checkpoint_beside(tmp_path: Path, process: CrashProcess) -> None:
    """The process that writes a checkpoint dies at any call; the monitor goes on without it."""
    work, places = WORKS["beside"], Folders(tmp_path)
    base = prepared(work, places)
    made = calls_of(work, places, base)

    def attempt(die: int) -> None:
        place = places.filled(base)
        child = process.run(work.name, place, die=die, beside="dies")
        assert child.code == 0 or "every batch up to now is kept" in child.trouble, child.trouble
        assert child.done == 2
        assert assert_settled(work, places, place, child.done) == 2

    tried("a checkpoint beside is killed at a call", sampled(turning(made), 8, "beside"), attempt)


@pytest.mark.parametrize("work", works(local=True), ids=str)
def test_what_is_said_of_failing_calls_is_true(work: Work, tmp_path: Path) -> None:
    places = Folders(tmp_path)
    base = prepared(work, places)
    made = calls_of(work, places, base)
    cases = [
        (n, n, fault)
        for n, fault in itertools.product(turning(made), CALL_FAULTS)
        if made[n - 1].startswith("write") or not isinstance(fault, Short | Torn)
    ]
    cases += [(n, MANY, fault) for n, fault in itertools.product(turning(made), LASTING_CALL_FAULTS)]

    def attempt(case: tuple[int, int, CallFault]) -> None:
        first, last, fault = case
        place = places.filled(base)
        with FaultCalls(place) as calls:
            calls.plan(dict.fromkeys(range(first, last + 1), fault))
            harmed(work, places, place, calls.plan)

    tried(f"failing calls, {work}", sampled(cases, 9, work), attempt)


def prepared(work: Work, places: Places) -> dict[str, bytes]:
    """The objects of the state that a work starts from."""
    place = places.fresh()
    work.prepare(place)
    return places.objects(place)


# --- an object store -----------------------------------------------------------------------------


@pytest.fixture
def between(moto: Moto, buckets: Buckets) -> Iterator[FaultProxy]:
    """Between those who work and the server; who looks afterwards asks the server itself."""
    with FaultProxy(moto.port) as found:
        yield found


def requests_of(work: Work, places: Buckets, base: dict[str, bytes], between: FaultProxy) -> list[str]:
    """The requests that the work makes."""
    place = places.filled(base)
    between.plan()
    with through(between), mock.patch("holdstrue.monitor.checkpoint.subprocess.Popen", Played):
        work.run(place, [], lambda: None)
    made = [str(request) for request in between.requests]
    assert_settled(work, places, place, len(work.stages) - 1)
    return made


def through(between: FaultProxy) -> Any:
    return mock.patch.dict(os.environ, {"AWS_ENDPOINT_URL": between.url})


def impatient() -> Any:
    """Give up soon what does not work."""
    quick = {purpose: replace(patience, repeats=1, until=1.0) for purpose, patience in object_client.PATIENCE.items()}
    return patched([(objects, "ATTEMPTS", 2), (object_client, "PATIENCE", quick)])


@pytest.mark.parametrize("work", works(local=False), ids=str)
def test_killed_at_any_request(work: Work, buckets: Buckets, between: FaultProxy, process: CrashProcess) -> None:
    base = prepared(work, buckets)
    made = requests_of(work, buckets, base, between)
    cases = list(itertools.product(range(1, len(made) + 1), (False, True)))
    env = environment(between.url) | {"HOLDSTRUE_CACHE": os.environ["HOLDSTRUE_CACHE"]}

    def attempt(case: tuple[int, bool]) -> None:
        number, after = case
        place, child = buckets.filled(base), Child()
        between.plan({number: Kill(child.number, after)})
        process.run(work.name, place, child, env=env)
        between.plan()
        assert child.code in (0, -signal.SIGKILL), child.trouble
        assert_settled(work, buckets, place, child.done)

    tried(f"killed at a request, {work}", sampled(cases, 3, work), attempt)


def test_killed_while_uploading_a_checkpoint_beside(
    moto: Moto, buckets: Buckets, between: FaultProxy, process: CrashProcess
) -> None:
    """The process that writes a checkpoint dies at any of its requests; the monitor goes on without it."""
    work = WORKS["beside"]
    base = prepared(work, buckets)
    env = environment(moto.url) | {"HOLDSTRUE_CACHE": os.environ["HOLDSTRUE_CACHE"]}
    place = buckets.filled(base)
    between.plan()
    process.run(work.name, place, env=env, beside=between.url)
    cases = list(itertools.product(range(1, between.seen + 1), (False, True)))
    assert cases, "it made no requests"

    def attempt(case: tuple[int, bool]) -> None:
        number, after = case
        place, child = buckets.filled(base), Child()
        between.plan({number: Kill(lambda: child.number("beside"), after)})
        process.run(work.name, place, child, env=env, beside=between.url)
        between.plan()
        assert child.code == 0 or "every batch up to now is kept" in child.trouble, child.trouble
        assert child.done == 2
        assert assert_settled(work, buckets, place, child.done) == 2

    tried("a checkpoint beside is killed at a request", sampled(cases, 4, "beside"), attempt)


@pytest.mark.parametrize("work", works(local=False), ids=str)
def test_what_is_said_of_failing_requests_is_true(work: Work, buckets: Buckets, between: FaultProxy) -> None:
    base = prepared(work, buckets)
    made = requests_of(work, buckets, base, between)
    cases = [(n, n, fault) for n, fault in itertools.product(range(1, len(made) + 1), REQUEST_FAULTS)]
    cases += [(n, MANY, fault) for n, fault in itertools.product(range(1, len(made) + 1), LASTING_REQUEST_FAULTS)]

    def attempt(case: tuple[int, int, Fault]) -> None:
        first, last, fault = case
        place = buckets.filled(base)
        between.plan(dict.fromkeys(range(first, last + 1), fault))
        with through(between), impatient() if last > first else contextlib.nullcontext():
            harmed(work, buckets, place, between.plan)

    tried(f"failing requests, {work}", sampled(cases, 4, work), attempt)
