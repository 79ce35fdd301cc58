"""Compiling does not count against the budget of a search."""

from __future__ import annotations

import time

import numba
import pytest

from holdstrue.discovery.work import Work
from holdstrue.kernels import compile_clock
from holdstrue.kernels import hitting_sets as sizes
from holdstrue.kernels.compile_clock import CLOCK, CompileClock


def test_threads_that_compile_together_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    moments = iter([10.0, 13.0, 20.0])
    monkeypatch.setattr(compile_clock, "monotonic", lambda: next(moments))
    clock = CompileClock()
    clock.on_start(None)
    clock.on_start(None)
    clock.on_end(None)
    assert clock.seconds == 3.0
    clock.on_end(None)
    assert clock.seconds == 10.0


def test_the_clock_of_a_search_stands_still_while_numba_compiles() -> None:
    # numba is there and tells the clock once a kernel was compiled, or its code read
    assert sizes.containing.compiled is not None  # type: ignore[attr-defined]
    work, spent, began = Work.lasting(60), CLOCK.seconds, time.monotonic()
    numba.njit(lambda number: number + 1)(1)
    took = CLOCK.seconds - spent
    assert took > 0
    assert work.left >= 60 - (time.monotonic() - began - took) - 0.001
    assert 29 < work.first(0.5).left <= 30
