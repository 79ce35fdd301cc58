"""Where the stages of a batch or a check are run, and into how many parts their work is cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.rules.types import Declared
from holdstrue.shards.wire import Message

HOT_FROM = 2_000_000
"""From so many rows on a first batch is sampled for hot keys; below, one shard holds any key easily."""

Stage: TypeAlias = Any
Frame: TypeAlias = Any
Sources: TypeAlias = Sequence[tuple[Frame | None, Stage]]
"""Data frames (None: the numbers of the tasks), each with the stage that reads it; without one it holds messages."""


class Runner(Protocol):
    """Where stages run. A stage turns record batches into record batches and can be sent to another process."""

    def schema(self, frame: Frame) -> pa.Schema:
        """Columns and types of a data frame."""

    def select(self, frame: Frame, columns: Sequence[str]) -> Frame:
        """Some columns."""

    def numbered(self, frame: Frame, name: str) -> Frame:
        """The same rows with one more column, the last, that numbers them."""

    def gathered(self, frame: Frame) -> Frame:
        """The same rows, in their order, in one partition."""

    def observed(self, frame: Frame, table: str, unit: str) -> Frame:
        """The same rows; whoever runs them may tell its listeners how many `unit` of a table they are."""

    def declared(self, frame: Frame, types: Mapping[str, Declared], known: pa.Schema | None) -> Frame:
        """The frame with its columns as declared; `known` are the types that earlier values decided."""

    def known_rows(self, frame: Frame) -> int | None:
        """How many rows there are, where that is known without reading them."""

    def count(self, frame: Frame) -> int:
        """How many rows there are."""

    def own_reading(self, frame: Frame, stage: Stage) -> tuple[Frame, Stage]:
        """A source that gives the stage the same rows, read by its tasks themselves where they can."""

    def sample(self, frame: Frame, rows: int, of: int) -> pa.Table:
        """About so many rows, out of so many."""

    def tasks(self) -> int:
        """How many tasks run at a time."""

    def tasks_for(self, frames: Sequence[Frame]) -> int:
        """How many tasks the rows of some frames are for, so that none holds too much."""

    def worker_bytes(self) -> int | None:
        """What one worker may hold; None where nothing limits it."""

    def run(self, sources: Sources, stages: Sequence[Stage], tasks: int) -> Iterator[Message]:
        """Send each frame through its stage, then all messages through the stages."""

    def distinct(self, stage: Stage, tasks: int, sources: Sources = ()) -> dict[int, int]:
        """Count the distinct rows that a stage gives, by their first column.

        It gets the messages of the sources, or where there are none the numbers of the tasks.
        """


@dataclass(frozen=True)
class Sizing:
    """How a state is to be laid out where its own numbers are not yet fixed."""

    shards: int | None = None
    blocks: int | None = None
    tasks: int | None = None
    hot_from: int = HOT_FROM

    def __post_init__(self) -> None:
        for name in ("shards", "blocks", "tasks"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise HoldstrueError(f"{name} is {value!r}", hint="give a number of at least 1, or leave it out")
