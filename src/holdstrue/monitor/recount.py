"""A monitor's counts against its rows: everything counted anew, from scratch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdstrue.detect.delta import RuleCounts
from holdstrue.monitor.monitor import Monitor
from holdstrue.monitor.reading import Guard
from holdstrue.monitor.views import Views


def recounted(monitor: Monitor) -> dict[str, RuleCounts]:
    """How each rule stands by the rows alone, without any index that was kept. Complexity: as for a first load.

    >>> import pyarrow as pa
    >>> monitor = Monitor("zip -> city", key="id", data=pa.table({"id": [1, 2], "zip": [1, 1], "city": ["A", "B"]}))
    >>> recounted(monitor) == monitor.counts()
    True
    """
    with monitor._here() as piece:
        rules = piece.facts.rules
        if piece.shard is None:
            return {rule.name: RuleCounts(0, 0, 0, 0) for rule in rules}
        anew = piece.shard.replanned(piece.shard.plan)
    views = Views(anew.engine, anew.keys, Guard())
    return {rule.name: views.counts(i) for i, rule in enumerate(rules)}


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
