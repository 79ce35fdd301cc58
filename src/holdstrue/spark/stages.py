"""How far the jobs of a block are, by the tasks of their stages, told to whoever listens for progress."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from pyspark.sql import SparkSession

from holdstrue.progress import LISTENER, Doing

EVERY = 0.3
"""Seconds between two looks at a session of this process; a Connect server tells by itself."""

Stage: TypeAlias = tuple[int, int, int]
"""Its number, its tasks, and how many of these are done."""


@contextmanager
def followed(spark: SparkSession, what: str) -> Iterator[None]:
    """Tell how many tasks of the stages at work are done, while the block runs; nothing is done if nobody listens."""
    listener = LISTENER.get()
    if listener is None:
        yield
        return

    def tell(stages: Iterable[Stage]) -> None:
        told = told_of(what, stages)
        if told is not None:
            listener(told)

    with (_of_server if type(spark).__module__.startswith("pyspark.sql.connect") else _of_session)(spark, tell):
        yield


def told_of(what: str, stages: Iterable[Stage]) -> Doing | None:
    """The stages at work as one piece of work; None where none is.

    >>> told_of("batch 7", [(4, 8, 8), (5, 8, 2)])
    Doing(what='batch 7: stage 5', rows=0, done=2, parts=8)
    """
    left = [stage for stage in stages if stage[2] < stage[1]]
    if not left:
        return None
    names = ", ".join(str(number) for number, _, _ in left)
    done, parts = sum(stage[2] for stage in left), sum(stage[1] for stage in left)
    return Doing(f"{what}: stage{'s' if len(left) > 1 else ''} {names}", 0, done, parts)


Tell: TypeAlias = Callable[[Iterable[Stage]], None]


@contextmanager
def _of_session(spark: SparkSession, tell: Tell) -> Iterator[None]:
    tracker, over = spark.sparkContext.statusTracker(), threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            found = (tracker.getStageInfo(number) for number in tracker.getActiveStageIds())
            tell([(stage.stageId, stage.numTasks, stage.numCompletedTasks) for stage in found if stage is not None])

    thread = threading.Thread(target=look, name="holdstrue-stages", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def _of_server(spark: Any, tell: Tell) -> Iterator[None]:
    def heard(*, stages: Iterable[Any] | None = None, **_: Any) -> None:
        tell([(stage.stage_id, stage.num_tasks, stage.num_completed_tasks) for stage in stages or ()])

    spark.registerProgressHandler(heard)
    try:
        yield
    finally:
        spark.removeProgressHandler(heard)
