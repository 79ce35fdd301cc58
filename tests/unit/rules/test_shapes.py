"""The shapes that rules speak of mean the same to every engine, and what they disagree about is refused."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdstrue import HoldstrueError, check, parse_rule
from holdstrue.data.compare import with_shape
from holdstrue.rules.shapes import Engine, ShapeError, translated

_ATOMS = ["a", "B", "é", "-", "_", " ", r"\.", ".", r"\d", r"\W", r"\s", r"\n", "[ab]", r"[^a\-\d]", "[a-cé]", "^", "$",
          "[\\]^]", "&&", "#", r"\\", "[a-]", "~"]  # fmt: skip


def _longer(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    repeat = st.sampled_from(["*", "+", "?", "{2}", "{1,}", "{0,2}"])
    return st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, inner).map("|".join),
        st.tuples(inner, repeat).map(lambda pair: f"({pair[0]}){pair[1]}"),
        inner.map(lambda part: f"(?:{part})"),
    )


shapes = st.recursive(st.sampled_from(_ATOMS), _longer, max_leaves=6)
texts = st.text(alphabet="aBcé-_ .7\n\t\\&^]#~", max_size=6)


@given(shapes, st.lists(texts, min_size=1, max_size=8))
@settings(max_examples=150)
def test_engines_agree(shape: str, values: list[str]) -> None:
    expected = [re.search(translated(shape, "python"), value) is not None for value in values]
    assert with_shape(pa.array(values), translated(shape, "re2")).tolist() == expected


@pytest.mark.parametrize("engine", ["re2", "java", "postgresql", "python"])
def test_what_it_becomes_is_a_shape_again(engine: Engine) -> None:
    once = translated(r"^(\w+)@[a-z.]{2,}$", engine)
    assert once == {"re2": r"^(?:[A-Za-z0-9_]+)\@[a-z\.]{2,}\z", "java": r"^(?:[A-Za-z0-9_]+)\@[a-z\.]{2,}\z"}.get(
        engine, r"^(?:[A-Za-z0-9_]+)\@[a-z\.]{2,}\Z"
    )


@pytest.mark.parametrize(
    ("shape", "said"),
    [
        (r"\bx", r"\\b is not read"), (r"(a)\1", r"\\1 is not read"), ("(?i)a", r"\(\? is not read"),
        ("(?=a)", r"\(\? is not read"), ("a+?", r"\+\? is not read"), ("a**", r"\*\* is not read"),
        ("*a", "repeats nothing"),
        ("^*", "repeats nothing"), ("(a", "never closed"), ("a)", "closes nothing"), ("[a", "never closed"),
        ("[]", "nothing stands"), ("[z-a]", "no range"), ("[[:alpha:]]", r"a \[ inside"),
        ("a{2", "no number of repeats"),
        ("a{5,2}", "cannot be"), ("a{1001}", "cannot be"), ("a{,2}", "no number of repeats"), ("a\\", "ends too early"),
        (r"[\D]", r"\\D is not read"), (r"\p{L}", r"\\p is not read"), ("}", "closes nothing"), ("[a-\\d]", "no range"),
    ],
)  # fmt: skip
def test_what_engines_disagree_about_is_refused(shape: str, said: str) -> None:
    with pytest.raises(ShapeError, match=said):
        translated(shape, "re2")


def test_every_form_of_a_demand() -> None:
    rows = pa.table({"id": [1, 2, 3, 4], "zip": ["12345", "1234", None, "1234é"], "age": [5, -1, None, 121]})
    rules = {
        "zip matches '^[0-9]{5}$'": {2, 4}, "zip not matches '^1'": {1, 2, 4}, "len(zip) = 5": {2},
        "len(zip) between 1 and 4": {1, 4},
        "age between 0 and 120": {2, 4}, "zip in ('12345', '1234')": {4}, "age >= 0": {2},
        "(age > 100 or not zip matches '1')": {1, 2},
    }  # fmt: skip
    report = check(rows, list(rules), key="id")
    assert {
        result.rule.name: {v.t for v in report.listed() if v.rule == result.rule.name} for result in report.results
    } == {parse_rule(text).name: found for text, found in rules.items()}


def test_only_text_has_a_shape() -> None:
    rows = pa.table({"zip": [12345]})
    for rule in ("zip matches '^1'", "len(zip) = 5"):
        with pytest.raises(HoldstrueError, match="only text has a length and a shape") as caught:
            check(rows, rule)
        assert "--type zip=text" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "text", ["len(a) = -1", "len(a) = 1.5", "a matches ''", "a matches 5", "len(a) matches 'x'", "a not 5"]
)
def test_what_is_no_demand(text: str) -> None:
    with pytest.raises(HoldstrueError):
        parse_rule(text)
