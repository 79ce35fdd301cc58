"""Kernels that run as the Python they are written in give what the compiled ones do, and only where little is asked."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from types import FunctionType
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdstrue import Monitor, check, kernels
from holdstrue.kernels import hashing, jit
from laws import worlds
from laws.test_detection import draw_rules


def both(kernel: jit.Kernel, *args: Any) -> Any:
    """What a kernel answers; fails where the two ways answer or write different things."""
    if not kernel.interpretable:
        return kernel.compiled(*args)
    copies = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    with np.errstate(over="ignore"):
        interpreted = jit._plain(kernel.interpreted(*copies))
    compiled = kernel.compiled(*args)
    assert type(interpreted) is type(compiled) and interpreted == compiled, kernel
    for own, other in zip(args, copies, strict=True):
        if isinstance(own, np.ndarray):
            np.testing.assert_array_equal(own, other, err_msg=str(kernel))
    return compiled


@settings(deadline=None, suppress_health_check=list(HealthCheck), max_examples=15)
@given(data=st.data())
def test_both_ways_are_one(data: st.DataObject) -> None:
    rules = draw_rules(data)
    rows = [data.draw(worlds.row(i)) for i in range(data.draw(st.integers(1, 9)))]
    table = pa.Table.from_pylist(rows, schema=worlds.SCHEMA)
    with patch.object(jit.Kernel, "__call__", both):
        list(check(table, rules, key="id", limit=None))
        monitor = Monitor(rules, key="id")
        monitor.apply(table.slice(0, 5))
        monitor.apply(table.slice(5))
        list(monitor.violations())


def test_much_is_compiled() -> None:
    words = np.arange(jit.SMALL_CALL + 1, dtype=np.uint64)
    assert not jit.Budget().allows((words,))
    assert jit.Budget().allows((words[:3], 7))


def test_often_little_is_much() -> None:
    budget, words = jit.Budget(), np.zeros(jit.SMALL_CALL, dtype=np.uint64)
    calls = 0
    while budget.allows((words,)):
        calls += 1
    assert calls == -(-jit.SMALL_WORLD // jit.SMALL_CALL)


def test_numbers_are_those_of_python() -> None:
    assert type(jit._plain(hashing.repeats(np.array([1, 1], dtype=np.uint64)))) is bool


@pytest.mark.parametrize(
    "rule", ["zip -> city", "key(zip)", "not(t.zip < s.zip and t.n > s.n)", "[zip=10] -> [city='A']"]
)
def test_a_small_check_needs_no_numba(rule: str) -> None:
    script = (
        "import sys, holdstrue, pyarrow as pa\n"
        "table = pa.table({'zip': [10, 10, 20], 'city': ['A', 'B', 'C'], 'n': [3, 2, 1]})\n"
        f"report = holdstrue.check(table, {rule!r})\n"
        "list(report)\n"
        "print(report.total, 'numba' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    total, loaded = done.stdout.split()
    assert (int(total) > 0, loaded) == (True, "False")


def test_what_only_kernels_call_is_called_by_kernels_only() -> None:
    """Called from Python, an inner kernel runs as Python, however much it has to do."""
    names = [f"holdstrue.kernels.{module.name}" for module in pkgutil.iter_modules(kernels.__path__)]
    for module in map(importlib.import_module, names):
        own = vars(module)
        inner = {name for name, part in own.items() if isinstance(part, jit.Kernel) and part.inner}
        for name, function in own.items():
            if isinstance(function, FunctionType) and function.__module__ == module.__name__:
                assert not inner & set(function.__code__.co_names), f"{module.__name__}.{name}"
