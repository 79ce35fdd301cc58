"""Site work as jobs: record batches in and out, nothing in memory between them, the same results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.fragments import Relation, Site
from holdstrue.fragments.site_host import SiteHost
from holdstrue.fragments.site_job import OWN_ROWS, WIRE, SiteCall, SiteJob, decoded, packed_rows, sent_rows
from holdstrue.fragments.site_spec import SiteSpec
from unit.fragments.test_fragments_site_state import FIRST, RULES, SECOND, SHAPES, split, state_of, told, wanted


class JobHost(SiteHost):
    """Every answer comes from a job of its own, which is told all that was said since the batch began."""

    def __init__(self, specs: Mapping[str, SiteSpec], sites: Mapping[str, Site]) -> None:
        super().__init__({})
        self.specs, self.placed = specs, sites
        self.scripts: dict[str, list[SiteCall]] = {name: [] for name in specs}
        self.told: dict[str, list[dict[str, Any]]] = {name: [] for name in specs}

    @property
    def sites(self) -> tuple[str, ...]:
        return tuple(self.specs)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        if verb in ("close", "release"):
            return None
        if verb in ("begin", "open_check", "abort", "close_check"):
            self.scripts[site], self.told[site] = [], []
            if verb in ("abort", "close_check"):
                return None
            source: pa.Table = self.placed[site].source
            rows = args[1] if len(args) > 1 else source.select(self.specs[site].schema.names)
            self.told[site].append(packed_rows(rows))
            args = (args[0], OWN_ROWS, *args[2:]) if len(args) > 1 else args
        if verb == "receive":
            self.told[site].append(sent_rows(len(self.scripts[site]), args[0]))
            args = ()
        script = [*self.scripts[site], (verb, args)]
        if verb not in ("done", "last", "presence", "violations", "violates", "size"):
            self.scripts[site] = script
        job = SiteJob(self.specs[site], str(self.placed[site].state), tuple(script))
        given = pa.RecordBatch.from_pylist(self.told[site], schema=WIRE)
        answers = decoded(pa.Table.from_batches(job([given]), schema=WIRE))
        if verb == "commit":
            self.scripts[site], self.told[site] = [], []
        return answers[len(script) - 1]


@pytest.mark.parametrize("shape", SHAPES)
def test_jobs_find_what_one_process_finds(shape: str, tmp_path: Path) -> None:
    with Relation(split(shape, tmp_path), RULES, key="id", host=JobHost) as relation:
        plain = Relation(split(shape, None), RULES, key="id")
        assert told(relation.load()) == told(plain.load())
        for batch in (FIRST, SECOND):
            assert told(relation.apply(batch, batch_id=str(id(batch)))) == told(plain.apply(batch, str(id(batch))))
        assert state_of(relation) == wanted(shape, FIRST, SECOND)
        assert told(relation.check()) == told(plain.check())
        assert relation.apply(SECOND, batch_id=str(id(SECOND))).repeated


def test_errors_come_back_as_errors(tmp_path: Path) -> None:
    sites = [Site(name, (name,), source=pa.table({"id": [1, 1], name: [1, 2]}), state=tmp_path / name) for name in "ab"]
    with pytest.raises(HoldstrueError, match="two rows with the key"):
        Relation(sites, ["a -> b"], key="id", host=JobHost).load()
