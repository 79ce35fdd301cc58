"""The one decorator under which every kernel is compiled, and where kernels run that have next to nothing to do.

Importing numba and loading compiled code takes most of a second, compiling it several. A check of ten rows needs
neither: as long as all that a process asked for is small, kernels run as the Python that they are written in. The
first call with more to do, or one too many with little, compiles them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, update_wrapper
from threading import RLock
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

import numpy as np

F = TypeVar("F", bound=Callable[..., object])

SMALL_CALL = 4096
"""Elements of the arrays of a call up to which it may run as Python, at about a microsecond each."""
SMALL_WORLD = 200_000
"""Elements of all such calls of a process: a fifth of a second, less than numba takes to be imported."""

_compiling = RLock()


class Budget:
    """How much a process has run as Python so far."""

    def __init__(self) -> None:
        self.left = SMALL_WORLD

    def allows(self, args: tuple[Any, ...]) -> bool:
        """Whether a call is small, and the process has not asked for much; counts it."""
        if self.left <= 0:
            return False
        size = sum(arg.size for arg in args if isinstance(arg, np.ndarray))
        if size > SMALL_CALL:
            self.left = 0  # numba will be there from now on
            return False
        self.left -= size
        return True


BUDGET = Budget()


class Machine:
    """An operation that Python has no word for: for compiled kernels an intrinsic of numba, made when it is needed.

    `in_python` says the same slowly; without it a kernel that uses the operation always is compiled.
    """

    def __init__(self, intrinsic: Callable[[], Any], in_python: Callable[..., Any] | None = None) -> None:
        self._intrinsic = intrinsic
        self.in_python = in_python

    def __call__(self, *args: Any) -> Any:
        if self.in_python is None:
            raise TypeError("an operation for compiled kernels only")
        return self.in_python(*args)

    @cached_property
    def compiled(self) -> Any:
        """The intrinsic."""
        return self._intrinsic()


class Kernel:
    """A function over arrays that is compiled when it has much to do."""

    def __init__(self, function: FunctionType, inner: bool = False) -> None:
        update_wrapper(self, function)
        self._function = function
        self.inner = inner
        self._ready: Any = None

    def __call__(self, *args: Any) -> Any:
        if self._ready is not None and not self.inner:
            return self._ready(*args)
        if self.inner or (BUDGET.allows(args) and self.interpretable):
            with np.errstate(over="ignore"):
                return _plain(self.interpreted(*args))
        return self.compiled(*args)

    @cached_property
    def _parts(self) -> dict[str, Kernel | Machine]:
        """The kernels and operations that it names."""
        own = self._function.__globals__
        return {
            name: own[name] for name in _names(self._function.__code__) if isinstance(own.get(name), Kernel | Machine)
        }

    @cached_property
    def interpretable(self) -> bool:
        """Whether it can run as Python."""
        own = self._function.__globals__
        outside = any(
            getattr(own.get(name), "__module__", "").startswith("numba") for name in _names(self._function.__code__)
        )
        inside = all(
            part is self or (part.interpretable if isinstance(part, Kernel) else part.in_python is not None)
            for part in self._parts.values()
        )
        return inside and not outside

    @cached_property
    def interpreted(self) -> Callable[..., Any]:
        """The function, which calls others as Python too."""
        parts = {
            name: part.interpreted if isinstance(part, Kernel) else part.in_python
            for name, part in self._parts.items()
            if part is not self
        }
        function = self._with(parts)
        function.__globals__[function.__name__] = function  # one that calls itself
        return function

    @property
    def compiled(self) -> Any:
        """What numba made of it."""
        if self._ready is None:
            with _compiling:
                if self._ready is None:
                    self._ready = self._compile()
        return self._ready

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments that it was compiled for."""
        return [] if self._ready is None else list(self._ready.signatures)

    def _compile(self) -> Any:
        import numba

        function = self._with({name: part.compiled for name, part in self._parts.items() if part is not self})
        # nobody calls kernels from C, nor inner ones from Python: numba need not make a way in
        ways = {"no_cfunc_wrapper": True, "no_cpython_wrapper": self.inner}
        try:
            ready = numba.njit(cache=not self.inner, nogil=True, **ways)(function)
        except RuntimeError:
            # neither place is writable, as on some clusters: every process then compiles for itself
            ready = numba.njit(nogil=True, **ways)(function)
        function.__globals__[function.__name__] = ready  # one that calls itself
        return ready

    def _with(self, parts: dict[str, Any]) -> FunctionType:
        """The function with other functions in place of those that it names."""
        own = self._function
        copy = FunctionType(own.__code__, {**own.__globals__, **parts}, own.__name__, own.__defaults__, own.__closure__)
        return cast("FunctionType", update_wrapper(copy, own, updated=()))


def _names(code: CodeType) -> set[str]:
    """The names that code and the functions within it use."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*(_names(part) for part in inner))


def _plain(result: Any) -> Any:
    """Numbers as compiled kernels return them."""
    if isinstance(result, np.generic):
        return result.item()
    return tuple(map(_plain, result)) if isinstance(result, tuple) else result


def kernel(function: F) -> F:
    """Compile on first call with much to do, without the GIL, and keep the machine code on disk for later processes.

    Compiled code lies beside the module, or in the user's cache directory where that is not
    writable. Arrays are passed C-contiguous, aligned and writable: any other layout would compile
    the kernel again.

    >>> @kernel
    ... def total(values):
    ...     found = 0
    ...     for i in range(values.size):
    ...         found += values[i]
    ...     return found
    >>> import numpy as np
    >>> total(np.array([1, 2, 3, 4, 5])), total.compiled(np.array([1, 2, 3, 4, 5]))
    (15, 15)
    """
    return cast("F", Kernel(cast("FunctionType", function)))


def inline(function: F) -> F:
    """The same, for a small function that only kernels call; the compiler below puts it in their place.

    Its machine code is part of theirs, so it is not kept by itself, and called from Python it runs as Python.
    """
    return cast("F", Kernel(cast("FunctionType", function), inner=True))
