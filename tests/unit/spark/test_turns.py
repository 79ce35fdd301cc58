"""Streams that are processes of their own wait for each other, also to pass over a batch."""

from __future__ import annotations

from typing import Any, cast

from holdstrue.detect.delta import Delta
from holdstrue.errors import ChangeError
from holdstrue.spark.stream import Batches
from holdstrue.state.lock import HeldError


class Busy:
    """A monitor whose state another process writes at first."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str, dict[str, Any]]] = []

    def apply(self, changes: Any, name: str, **options: Any) -> Delta:
        self.asked.append((changes, name, options))
        if len(self.asked) == 1:
            raise HeldError("another process writes the state", hint=None)
        return Delta(name, (), (), {})


def test_a_batch_is_passed_over_when_it_is_its_turn() -> None:
    monitor, batches = Busy(), Batches("state", "place", "orders", None, (), {"limit": 7}, "skip")
    delta = batches._bad(cast("Any", monitor), cast("Any", None), "orders-1", (), ChangeError("it does not fit"))
    assert monitor.asked == [({}, "orders-1", {"limit": 0})] * 2
    assert delta.notes == ("the batch was passed over: it does not fit",)
