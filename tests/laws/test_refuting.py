"""Verified denial constraints: a pair is found exactly where there is one, by every shape of comparison."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue.discovery.denials import refuter, row_classes
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.refuter import Refuter
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.rules.model import Op
from oracle_denial import satisfied


@pytest.mark.parametrize("cells", [8, refuter.MOST_CELLS], ids=["boxes", "trees"])
@pytest.mark.parametrize("scanned", [0, refuter.SCANNED], ids=["swept", "scanned"])
@pytest.mark.parametrize("nulls", ["unknown", "equal"])
def test_a_pair_is_found_where_there_is_one(
    nulls: Any, scanned: int, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # classes are thought of for small tables too; where there is no equality to scan they come first
    monkeypatch.setattr(refuter, "CLASSED_ROWS", 0 if cells == 8 else 4096)
    monkeypatch.setattr(refuter, "CLASSED_PAIRS", 1 << 20)
    monkeypatch.setattr(row_classes.RowClasses.__init__, "__defaults__", (20,))
    # four orders are searched by boxes where a tree would have more cells than these
    monkeypatch.setattr(refuter, "MOST_CELLS", cells)
    monkeypatch.setattr(refuter, "SCANNED", scanned)
    monkeypatch.setattr(refuter, "SCANNED_FOR_SWEEP", scanned)

    @given(
        st.integers(0, 2**32),
        st.sampled_from([2, 3, 8, 30, 70]),
        st.sampled_from([2, 4, 60]),
        st.booleans(),
        st.lists(st.lists(st.integers(0, 99), min_size=1, max_size=6), min_size=8, max_size=8),
    )
    @settings(max_examples=25)
    def law(seed: int, rows: int, values: int, missing: bool, drawn: list[list[int]]) -> None:
        chance = np.random.default_rng(seed)
        columns: dict[str, list[Any]] = {name: chance.integers(0, values, rows).tolist() for name in "abcd"}
        columns["e"] = chance.choice(list("xyz"), rows).tolist()
        # a column that nearly follows another one, so that some rules hold or nearly do
        columns["b"] = [max(0, a - int(off)) for a, off in zip(columns["a"], chance.integers(0, 2, rows), strict=True)]
        if missing:
            for name in "bcd":
                columns[name] = [None if chance.random() < 0.2 and i else c for i, c in enumerate(columns[name])]
        table = pa.table(columns)
        options = DiscoveryOptions(shared=0, nulls=nulls)
        space = choose_space(table, options, both_ways=bool(seed % 2))
        coded = CodedRows(space)
        coded.insert(table)
        rules, texts = [], []
        for numbers in drawn:
            terms = {}
            for number in numbers:
                place = number % len(space.comparisons)
                ops = list(Op) if space.comparisons[place].ordered else [Op.EQ, Op.NE]
                terms[place] = ops[number // 7 % len(ops)]
            rules.append(space.terms_mask(terms.items()))
            sides = [(space.comparisons[i], op) for i, op in terms.items()]
            texts.append(frozenset((space.columns[c.left], str(op), space.columns[c.right]) for c, op in sides))
        verdicts = Refuter(coded).verify(np.stack(rules), Work(threads=1 + seed % 2))
        data = table.to_pylist()
        for at, rule in enumerate(texts):
            broken = any(satisfied(rule, t, s, nulls) for i, t in enumerate(data) for j, s in enumerate(data) if i != j)
            pair = verdicts.pair(at)
            assert verdicts.looked[at] and (pair is not None) == broken, (sorted(rule), pair)
            assert pair is None or (pair[0] != pair[1] and satisfied(rule, data[pair[0]], data[pair[1]], nulls))

    law()
