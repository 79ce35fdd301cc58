"""Site work as stages: record batches in and out, nothing in memory between them, the same results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.fragments import Relation, Site
from holdstrue.fragments.host import Host
from holdstrue.fragments.setup import Setup
from holdstrue.fragments.stage import OWN_ROWS, WIRE, Call, SiteStage, decoded, packed_rows, sent_rows
from unit.fragments.test_fragments_durable import FIRST, RULES, SECOND, SHAPES, split, state_of, wanted


class StageHost(Host):
    """Every answer comes from a stage of its own, which is told all that was said since the batch began."""

    def __init__(self, setups: Mapping[str, Setup], sites: Mapping[str, Site]) -> None:
        super().__init__({})
        self.setups, self.placed = setups, sites
        self.scripts: dict[str, list[Call]] = {name: [] for name in setups}
        self.told: dict[str, list[dict[str, Any]]] = {name: [] for name in setups}

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.setups)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        if verb == "close":
            return None
        if verb in ("begin", "open_check", "abort", "close_check"):
            self.scripts[site], self.told[site] = [], []
            if verb in ("abort", "close_check"):
                return None
            source: pa.Table = self.placed[site].source
            rows = args[1] if len(args) > 1 else source.select(self.setups[site].schema.names)
            self.told[site].append(packed_rows(rows))
            args = (args[0], OWN_ROWS, *args[2:]) if len(args) > 1 else args
        if verb == "receive":
            self.told[site].append(sent_rows(len(self.scripts[site]), args[0]))
            args = ()
        script = [*self.scripts[site], (verb, args)]
        if verb not in ("done", "last", "presence", "violations", "standing", "size"):
            self.scripts[site] = script
        stage = SiteStage(self.setups[site], str(self.placed[site].state), tuple(script))
        given = pa.RecordBatch.from_pylist(self.told[site], schema=WIRE)
        answers = decoded(pa.Table.from_batches(stage([given]), schema=WIRE))
        if verb == "commit":
            self.scripts[site], self.told[site] = [], []
        return answers[len(script) - 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_stages_find_what_one_process_finds(shape: str, tmp_path: Path) -> None:
    with Relation(split(shape, tmp_path), RULES, key="id", host=StageHost) as relation:
        plain = Relation(split(shape, None), RULES, key="id")
        assert relation.load().to_dict() == plain.load().to_dict()
        for batch in (FIRST, SECOND):
            assert (
                relation.apply(batch, batch_id=str(id(batch))).to_dict() == plain.apply(batch, str(id(batch))).to_dict()
            )
        assert state_of(relation) == wanted(shape, FIRST, SECOND)
        assert relation.check().to_dict() == plain.check().to_dict()
        assert relation.apply(SECOND, batch_id=str(id(SECOND))).repeated


def test_errors_come_back_as_errors(tmp_path: Path) -> None:
    sites = [Site(name, (name,), source=pa.table({"id": [1, 1], name: [1, 2]}), state=tmp_path / name) for name in "ab"]
    with pytest.raises(HoldstrueError, match="two rows with the key"):
        Relation(sites, ["a -> b"], key="id", host=StageHost).load()
