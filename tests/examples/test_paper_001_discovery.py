"""Worked examples of paper 001 (Incremental discovery of denial constraints) for evidences and rules."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from holdstrue.discovery.denials.breaking_pairs import breaking_pairs
from holdstrue.discovery.denials.choose_space import choose_space
from holdstrue.discovery.denials.coded_rows import CodedRows
from holdstrue.discovery.denials.cover import Cover, CoverSearch
from holdstrue.discovery.denials.denial_core import DenialCore
from holdstrue.discovery.denials.pair_words import PairWords
from holdstrue.discovery.denials.space import Space
from holdstrue.discovery.options import DiscoveryOptions
from holdstrue.discovery.work import Work
from holdstrue.rules.model import DC
from holdstrue.rules.parser import parse_rule
from holdstrue.rules.text import predicate_text, text_of

NAMES = ["Name", "Date", "SSN", "NUM", "MS", "CH", "PH", "ST", "ZIP", "SAL", "RATE", "TXA", "STX", "CTX"]
ROWS = [
    ("Sadam", 20140410, "719975883", 1448, "S", "Y", "6059466", "CO", "80612", 32000, 1.24, 3000, 400, 2000),
    ("Duparc", 20140224, "303975883", 1401, "M", "N", "5872027", "CO", "80612", 50000, 1.42, 1500, 0, 0),
    ("Hannen", 20140413, "701178073", 1486, "M", "N", "1638673", "ND", "58671", 30000, 1.21, 3400, 0, 0),
    ("Beke", 20130403, "801350874", 1386, "M", "Y", "6192334", "UT", "84308", 55000, 2.04, 1300, 0, 40),
    ("Sadam", 20140329, "719975883", 1427, "S", "N", "6059466", "CO", "80612", 7500, 1.21, 0, 50, 0),
    ("Hannen", 20130404, "701178073", 1386, "S", "Y", "1638673", "ND", "58671", 6500, 0.24, 900, 0, 1000),
    ("Motwani", 20150324, "970122634", 1547, "M", "N", "8484643", "CO", "80209", 95000, 2.85, 1100, 0, 0),
    ("Uckun", 20130322, "435849162", 1368, "M", "Y", "5872027", "UT", "84308", 40000, 1.43, 3300, 0, 0),
    ("Hannen", 20140218, "701178073", 1478, "S", "N", "1638673", "ND", "58671", 33000, 2.05, 1400, 40, 40),
    ("Beke", 20150213, "801350874", 1533, "S", "Y", "6192334", "UT", "84308", 32000, 1.23, 3200, 0, 1000),
]
TAX = pa.table(dict(zip(NAMES, map(list, zip(*ROWS)))))
R1, MORE = TAX.slice(0, 7), TAX.slice(7)
PHI = [
    "not(t.SSN = s.SSN and t.Name != s.Name)",
    "not(t.ZIP = s.ZIP and t.ST != s.ST)",
    "not(t.TXA > s.TXA and t.SAL < s.SAL and t.RATE > s.RATE)",
    "not(t.SSN = s.SSN and t.Date < s.Date and t.NUM >= s.NUM)",
    "not(t.STX = s.STX and t.STX > s.CTX and t.MS != s.MS)",
]
NONE = np.zeros(0, dtype=np.int64)


def body(text: str) -> DC:
    parsed = parse_rule(text).body
    assert isinstance(parsed, DC)
    return parsed


def implied(core: DenialCore, text: str) -> bool:
    """Whether a discovered rule is contained in this one."""
    mask = core.space.parse(body(text))
    sets = [core.space.parse(rule.body) for rule in core.rules()]
    both = sets + [other for one in sets if (other := core.space.swapped(one)) is not None]
    return any(not (one & ~mask).any() for one in both)


def discovered(columns: str) -> DenialCore:
    return DenialCore.load(R1.select(columns.split()), DiscoveryOptions(shared=0.3), Work(threads=1))


@pytest.mark.parametrize(
    ("phi", "columns", "still"),
    [
        (PHI[0], "SSN Name", True),
        (PHI[1], "ZIP ST", True),
        (PHI[2], "TXA SAL RATE ST", False),
        (PHI[3], "SSN Date NUM", True),
        (PHI[4], "STX CTX MS", True),
    ],
)
def test_examples_1_and_2_only_phi3_fails(phi: str, columns: str, still: bool) -> None:
    core = discovered(columns)
    assert implied(core, phi)
    core.apply(NONE, MORE)
    assert implied(core, phi) == still


def test_example_2_what_becomes_of_phi3() -> None:
    core = discovered("TXA SAL RATE ST Date PH")
    core.apply(NONE, MORE)
    phi3 = PHI[2][:-1]
    assert implied(core, f"{phi3} and t.ST = s.ST)")
    assert implied(core, f"{phi3} and t.Date = s.Date)")
    assert not implied(core, f"{phi3} and t.PH = s.PH)")


def test_example_2_phi3_is_broken_by_the_named_pairs() -> None:
    space, rows = space_of("SAL TXA RATE ST")
    [pairs] = breaking_pairs(rows, [space.parse(body(PHI[2]))], Work(threads=1))
    assert sorted(pairs) == [(7, 1), (8, 3)]
    core = discovered("SAL TXA RATE ST")
    phi3 = core.space.parse(body(PHI[2]))
    exchanged = core.space.swapped(phi3)
    assert exchanged is not None
    turnover = core.apply(NONE, MORE)
    implying = [
        one.rows
        for one in turnover.died
        if isinstance(one.body, DC) and any(not (core.space.parse(one.body) & ~m).any() for m in (phi3, exchanged))
    ]
    assert implying and all(max(witness) >= 7 for witness in implying)


def space_of(columns: str) -> tuple[Space, CodedRows]:
    space = choose_space(TAX, DiscoveryOptions(cross=False), columns=columns.split())
    rows = CodedRows(space)
    rows.insert(TAX)
    return space, rows


def test_example_3_evidence_of_t7_t1() -> None:
    space, rows = space_of("SAL TXA RATE ST")
    [word] = PairWords(rows).words(np.array([7]), np.array([1]))
    held = {
        predicate_text(predicate)
        for predicate in (
            body(f"not(t.{column} {op} s.{column})").predicates[0]
            for column in ("SAL", "TXA", "RATE", "ST")
            for op in (("=", "!=") if column == "ST" else ("=", "!=", "<", "<=", ">", ">="))
        )
        if not (space.parse(DC((predicate,))) & ~word).any()
    }
    assert held == {
        "t.SAL != s.SAL", "t.SAL < s.SAL", "t.SAL <= s.SAL",
        "t.TXA != s.TXA", "t.TXA > s.TXA", "t.TXA >= s.TXA",
        "t.RATE != s.RATE", "t.RATE > s.RATE", "t.RATE >= s.RATE",
        "t.ST != s.ST",
    }  # fmt: skip
    assert not (space.parse(body(PHI[2])) & ~word).any()


def test_example_14_extension_step_by_step() -> None:
    space, rows = space_of("SAL TXA RATE ST PH")
    search = CoverSearch(space)
    phi3 = Cover(space.parse(body(PHI[2]))[None, :])
    t8_t3, t7_t1 = (PairWords(rows).words(np.array([t]), np.array([s])) for t, s in ((8, 3), (7, 1)))
    texts = {text_of(space.body(mask)) for mask in search.extended(phi3, t8_t3).sets}
    with_state, with_phone = (
        text_of(space.body(space.parse(body(f"{PHI[2][:-1]} and t.{c} = s.{c})")))) for c in ("ST", "PH")
    )
    assert {with_state, with_phone} <= texts
    after = search.extended(search.extended(phi3, t8_t3), t7_t1)
    texts = {text_of(space.body(mask)) for mask in after.sets}
    assert with_state in texts and with_phone not in texts
    assert not any("t.PH = s.PH" in text and "t.ST = s.ST" in text for text in texts)
