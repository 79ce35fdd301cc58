"""Labels keep the order of their values whatever comes in between."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdstrue import Monitor
from holdstrue.data import labels as module
from holdstrue.data.labels import Labels


@given(st.lists(st.lists(st.text(max_size=4), max_size=6), max_size=8), st.sampled_from([1, 2, 4, 2**32]))
def test_order_is_kept(batches: list[list[str]], step: int) -> None:
    before, module.STEP = module.STEP, step
    try:
        labels = Labels("text")
        for batch in batches:
            assert len(labels.assign(batch)) == len(batch)
            values = labels.values()
            assert values == sorted(set(values))
            assert (np.diff(labels.labels) > 0).all()
    finally:
        module.STEP = before


def test_translation_leads_from_old_labels_to_new() -> None:
    before, module.STEP = module.STEP, 2
    try:
        labels = Labels("text")
        old = dict(zip(["a", "z"], labels.assign(["a", "z"])))
        for word in ("m", "g", "d", "c", "b"):
            labels.assign([word])
        translation = labels.take_translation()
        assert translation is not None
        moved = dict(zip(translation[0].tolist(), translation[1].tolist()))
        now = dict(zip(map(bytes.decode, labels.values()), labels.labels.tolist()))
        assert {word: moved[label] for word, label in old.items()} == {word: now[word] for word in old}
        assert labels.take_translation() is None
    finally:
        module.STEP = before


def test_a_monitor_survives_relabelling() -> None:
    """Strings compared by order, squeezed between each other until no gap is left."""
    before, module.STEP = module.STEP, 2
    try:
        monitor = Monitor("not(t.name < s.name and t.rank > s.rank)", key="id")
        words: list[tuple[int, str, int]] = []
        for i, word in enumerate(["a", "z", "m", "g", "d", "c", "b", "aa", "ab", "ac", "y", "x"]):
            words.append((i, word, (i * 7) % 5))
            monitor.apply(pa.table({"id": [i], "name": [word], "rank": [(i * 7) % 5]}))
            truth = {(t[0], s[0]) for t in words for s in words if t[1] < s[1] and t[2] > s[2]}
            assert {(v.t, v.s) for v in monitor.violations()} == truth
    finally:
        module.STEP = before


def test_labels_of_the_kept_format_are_read() -> None:
    """Text as UTF-8 and decimals by their digits, in order, as states have held them since labels are kept."""
    text = Labels("text")
    text.restore([b"", b"a", "é".encode()], [-(2**32), 0, 5])
    assert text.assign(["é", "", "a"]) == [5, -(2**32), 0]
    assert 0 < text.assign(["b"])[0] < 5
    long = Labels("decimal")
    written = [b"-12345678901234567890.50", b"-1", b"0.00", b"1E+3", b"99999999999999999999"]
    long.restore(written, [1, 2, 3, 4, 9])
    assert long.assign([Decimal("1000.0"), Decimal("0"), Decimal("-12345678901234567890.5")]) == [4, 3, 1]
    assert list(map(Decimal, map(bytes.decode, long.written().to_pylist()))) == [Decimal(d.decode()) for d in written]


@pytest.mark.parametrize(
    ("family", "written", "labels"),
    [
        ("text", [b"a", b"b"], [1, 1]), ("text", [b"a", b"a"], [1, 2]), ("text", [b"a"], [1, 2]),
        ("text", [b"\xff"], [1]), ("decimal", [b"x"], [1]), ("decimal", [b"NaN"], [1]),
        ("decimal", [b"1E+999999"], [1]), ("decimal", [b"\xff"], [1]), ("decimal", [b"2", b"10", b"9"], [1, 2, 3]),
    ],
)  # fmt: skip
def test_labels_that_cannot_be_are_refused(family: Any, written: list[bytes], labels: list[int]) -> None:
    with pytest.raises(ValueError, match=r"a value is no|do not ascend"):
        Labels(family).restore(written, labels)
