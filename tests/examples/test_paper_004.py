"""Paper 004, the running example (Table 1, Figure 2, Table 2) and Examples 1.1 and 4.3 to 4.11."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pytest

from holdstrue.discovery.inclusions.attributes import RowChanges
from holdstrue.discovery.inclusions.contents import content_of
from holdstrue.discovery.inclusions.unary import StructureKind, UnaryInclusions, ValueLayout
from holdstrue.papers.clusters import Clusters
from holdstrue.rules.model import Body, Inclusion

NAMES = "ABCD"


def rows(*tuples: str) -> pa.Table:
    return pa.table({name: pa.array([row[i] for row in tuples], pa.string()) for i, name in enumerate(NAMES)})


TABLE_1 = rows("aafa", "bbea", "bcfc", "ddfc")


@pytest.fixture(params=["clusters", "counters"])
def structure(request: pytest.FixtureRequest) -> StructureKind:
    return request.param


def loaded(structure: StructureKind = "clusters", table: pa.Table = TABLE_1) -> UnaryInclusions:
    return UnaryInclusions.load({"R": table}, ValueLayout(structure=structure, shards=1))


def letters(bodies: Iterable[Body]) -> list[str]:
    return [body.columns[0] + body.ref_columns[0] for body in bodies if isinstance(body, Inclusion)]


def inclusions(core: UnaryInclusions) -> set[str]:
    return set(letters(rule.body for rule in core.rules()))


def clusters(core: UnaryInclusions) -> set[str]:
    assert isinstance(core.structure, Clusters)
    return {"".join(NAMES[a] for a in sorted(cluster)) for cluster, _ in core.structure.records().values()}


def generator(core: UnaryInclusions, value: str) -> tuple[list[int], str]:
    """The frequencies of a value and its cluster, as Table 2 has them."""
    assert isinstance(core.structure, Clusters)
    content = content_of(pa.array([value]), "types", core.layout.seed)
    [values] = core.structure.shards
    [frequencies] = values.frequencies(content.hi, content.lo)
    records = core.structure.records()
    [cid] = core.structure.cids(0, values.find(content.hi, content.lo)).tolist()
    cluster = records[cid][0] if cid in records else frozenset()
    return [frequencies.get(a, 0) for a in range(4)], "".join(NAMES[a] for a in sorted(cluster))


def test_running_example(structure: StructureKind) -> None:
    assert inclusions(loaded(structure)) == {"AB", "DB"}


def test_figure_2_and_table_2() -> None:
    core = loaded()
    assert clusters(core) == {"AB", "ABD", "BD", "C"}
    assert generator(core, "a") == ([1, 1, 0, 2], "ABD")
    assert generator(core, "b") == ([2, 1, 0, 0], "AB")
    assert generator(core, "c") == ([0, 1, 0, 2], "BD")
    assert generator(core, "d") == ([1, 1, 0, 0], "AB")
    assert generator(core, "e") == ([0, 0, 1, 0], "C")
    assert generator(core, "f") == ([0, 0, 3, 0], "C")
    assert isinstance(core.structure, Clusters)
    sizes = {"".join(NAMES[a] for a in sorted(c)): size for c, size in core.structure.records().values()}
    assert sizes == {"ABD": 1, "AB": 2, "BD": 1, "C": 2}


def test_example_4_3_clustering_of_a_tuple() -> None:
    core = loaded(table=rows("ccee"))
    assert clusters(core) == {"AB", "CD"}
    assert generator(core, "c") == ([1, 1, 0, 0], "AB")
    assert generator(core, "e") == ([0, 0, 1, 1], "CD")


def test_examples_1_1_and_4_6_insert(structure: StructureKind) -> None:
    core = loaded(structure)
    turnover = core.apply({"R": RowChanges(added=rows("ccee"))})
    assert inclusions(core) == {"AB", "BA"}
    assert letters(died.body for died in turnover.died) == ["DB"]
    assert letters(turnover.born) == ["BA"]


def test_example_4_6_merged_clusters() -> None:
    core = loaded()
    core.apply({"R": RowChanges(added=rows("ccee"))})
    assert clusters(core) == {"ABD", "AB", "CD", "C"}
    assert generator(core, "c") == ([1, 2, 0, 2], "ABD")
    assert generator(core, "e") == ([0, 0, 2, 1], "CD")
    assert generator(core, "b") == ([2, 1, 0, 0], "AB")


def test_examples_1_1_and_4_10_delete(structure: StructureKind) -> None:
    core = loaded(structure)
    turnover = core.apply({"R": RowChanges(removed=rows("bbea"))})
    assert inclusions(core) == {"DB"}
    assert letters(died.body for died in turnover.died) == ["AB"]
    assert turnover.born == ()


def test_example_4_10_extracted_clusters() -> None:
    core = loaded()
    core.apply({"R": RowChanges(removed=rows("bbea"))})
    assert clusters(core) == {"ABD", "AB", "BD", "A", "C"}
    assert generator(core, "b") == ([1, 0, 0, 0], "A")
    assert generator(core, "a") == ([1, 1, 0, 1], "ABD")
    assert generator(core, "e") == ([0, 0, 0, 0], "")


def test_example_4_11_changed_values(structure: StructureKind) -> None:
    core = loaded(structure)
    core.apply({"R": RowChanges(removed=rows("bcfc"), added=rows("bgfg"))})
    assert inclusions(core) == {"AB"}
    if structure == "clusters":
        assert clusters(core) == {"ABD", "AB", "D", "BD", "C"}
        assert generator(core, "c") == ([0, 0, 0, 1], "D")
        assert generator(core, "g") == ([0, 1, 0, 1], "BD")


def test_insert_and_delete_take_each_other_back(structure: StructureKind) -> None:
    core = loaded(structure)
    core.apply({"R": RowChanges(added=rows("ccee"))})
    core.apply({"R": RowChanges(removed=rows("ccee"))})
    assert inclusions(core) == {"AB", "DB"}
    if structure == "clusters":
        assert clusters(core) == {"AB", "ABD", "BD", "C"}
