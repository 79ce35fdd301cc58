"""A monitor's counts against its rows: everything counted anew, from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdstrue.detect.delta import RuleCounts
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.reading import Guard
from holdstrue.monitor.views import Views
from holdstrue.plan.measures import Part, written
from holdstrue.shards.shard import Shard


def recounted(monitor: Monitor) -> dict[str, RuleCounts]:
    """How each rule stands by the rows alone, without any index that was kept. Complexity: as for a first load.

    >>> import pyarrow as pa
    >>> monitor = Monitor("zip -> city", key="id", data=pa.table({"id": [1, 2], "zip": [1, 1], "city": ["A", "B"]}))
    >>> recounted(monitor) == monitor.counts()
    True
    """
    rules, anew = monitor.rules, _anew(monitor)
    if anew is None:
        return {rule.name: RuleCounts(0, 0, 0, 0) for rule in rules}
    views = Views(anew.engine, anew.keys, Guard())
    return {rule.name: views.counts(i) for i, rule in enumerate(rules)}


def _anew(monitor: Monitor) -> Shard | None:
    """The rows alone, with every index made anew; None before there are any."""
    with monitor._here() as piece:
        return None if piece.shard is None else piece.shard.replanned(piece.shard.plan)


def wrong_measures(monitor: Monitor, kept: Mapping[str, tuple[Part, ...]]) -> Iterator[str]:
    """Where what is kept of rules about whole tables is not what the rows make, in words.

    Complexity: as for a first load, where there are such rules.

    >>> import pyarrow as pa
    >>> monitor = Monitor("sum(a) > 1", key="id", data=pa.table({"id": [1, 2], "a": [1, 3]}))
    >>> list(wrong_measures(monitor, {"sum(a) > 1": ((2, 5),)}))
    ["rule 'sum(a) > 1' is kept with [['2', '5']], and its rows make [['2', '4']]"]
    """
    anew = _anew(monitor) if kept else None
    for rule, parts in () if anew is None else anew.engine.measures().items():
        if kept.get(rule) != parts:
            yield f"rule {rule!r} is kept with {written(kept.get(rule, ()))}, and its rows make {written(parts)}"


def differences(kept: Mapping[str, RuleCounts], anew: Mapping[str, RuleCounts]) -> Iterator[str]:
    """Where counts differ, in words.

    >>> list(differences({"zips": RuleCounts(2, 1, 1, 1)}, {"zips": RuleCounts(4, 2, 1, 2)}))
    ["rule 'zips' is kept with rows 2, pairs 1, open 1, and its rows make rows 4, pairs 2, open 2"]
    """
    for rule, counts in anew.items():
        before = vars(kept.get(rule, RuleCounts(0, 0, 0, 0)))
        wrong = [name for name, count in vars(counts).items() if before[name] != count]
        if wrong:
            said = (", ".join(f"{name} {which[name]:,}" for name in wrong) for which in (before, vars(counts)))
            yield f"rule {rule!r} is kept with {next(said)}, and its rows make {next(said)}"
