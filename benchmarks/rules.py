"""The benchmark rules phi7 to phi12, for us as text and for the peers as equalities and other comparisons."""

from __future__ import annotations

from dataclasses import dataclass

from workloads import flights, tax


@dataclass(frozen=True)
class BenchRule:
    """A rule over pairs of rows: `equal` and `other` must hold together for a violation.

    `symmetric` rules hold for (t, s) and (s, t) alike; `orders` says whether that is one violation or two
    (paper 003 counts both orders of a rule that compares one column with another).
    """

    name: str
    workload: str
    text: str
    equal: tuple[tuple[str, str], ...]
    other: tuple[tuple[str, str, str], ...] = ()
    symmetric: bool = False
    orders: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns the rule reads."""
        named = [*(c for pair in self.equal for c in pair), *(c for a, _, b in self.other for c in (a, b))]
        return tuple(dict.fromkeys(named))

    @property
    def grouped(self) -> bool:
        """Whether the rule is a key or an FD, so that one GROUP BY decides it."""
        return all(a == b for a, b in self.equal) and all(op == "!=" for _, op, _ in self.other)


def _same(*columns: str) -> tuple[tuple[str, str], ...]:
    return tuple((column, column) for column in columns)


RULES = {
    rule.name: rule
    for rule in (
        BenchRule("phi7", "tax", tax.RULES["phi7"], _same("area_code", "phone"), (), True),
        BenchRule("phi8", "tax", tax.RULES["phi8"], _same("zip"), (("city", "!=", "city"),), True),
        BenchRule(
            "phi9",
            "tax",
            tax.RULES["phi9"],
            _same("state", "has_child"),
            (("child_exemp", "!=", "child_exemp"),),
            True,
        ),
        BenchRule(
            "phi10", "tax", tax.RULES["phi10"], _same("state"), (("salary", ">", "salary"), ("rate", "<", "rate"))
        ),
        BenchRule(
            "phi11",
            "flights",
            flights.RULES["phi11"],
            (("origin", "dest"), ("dest", "origin")),
            (("distance", "!=", "distance"),),
            True,
            2,
        ),
        BenchRule(
            "phi12",
            "flights",
            flights.RULES["phi12"],
            _same("origin", "dest"),
            (("flights", ">", "flights"), ("passengers", "<", "passengers")),
        ),
    )
}

TOGETHER = ("phi7", "phi8", "phi9", "phi10")


def rule_sets(names: str) -> list[tuple[BenchRule, ...]]:
    """The sets to run: `phi7,phi10,phi7-10` are two single rules and the four Tax rules together."""
    sets = []
    for name in names.split(","):
        members = TOGETHER if name == "phi7-10" else (name,)
        sets.append(tuple(RULES[member] for member in members))
    return sets


def label(rules: tuple[BenchRule, ...]) -> str:
    """What a set of rules is called in tables."""
    return rules[0].name if len(rules) == 1 else "phi7-10"
