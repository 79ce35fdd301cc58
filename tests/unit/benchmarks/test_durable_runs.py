"""A smoke run of the durable benchmark at its quick sizes: every part answers, and its answers are right."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import durable
from competitors.one_row import COLUMNS, COMPETITORS
from durability import long_run, opening, stall
from durability.part import Place, beside
from turns import Turns
from workloads.changing import ChangingTable


def test_competitors_agree_on_what_each_row_breaks(tmp_path: Path) -> None:
    checked = [name for name in COMPETITORS if "checked" in name or "holdstrue" in name]
    answers = {}
    for at, name in enumerate(checked):
        with Turns(name, tmp_path / str(at), 3_000, 60) as turn:
            turn.ready()
            turn.play(25)
            turn.play(35)
            figures = turn.figures()
        assert len(figures["wall_ms"]) == 60
        assert figures["broken"] > 0
        answers[name] = figures["answer"]
    assert len(checked) == 5
    assert len({*answers.values()}) == 1
