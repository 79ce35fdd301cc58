"""Conditional FDs that no row can keep are refused."""

from __future__ import annotations

import pytest

from holdstrue.errors import RuleError
from holdstrue.rules import parse_rule


@pytest.mark.parametrize("text", ["[zip=10] -> [zip=11]", "[zip, state] -> [city] with (10, _ || 'A'), (10, _ || 'B')"])
def test_two_values_for_one_column(text: str) -> None:
    with pytest.raises(RuleError, match="contradicts itself"):
        parse_rule(text)


def test_different_patterns_may_demand_different_values() -> None:
    assert parse_rule("[zip] -> [city] with (10 || 'A'), (11 || 'B'), (_ || _)").kind == "cfd"
