"""Values off the form of their column: traces of conversion, missing values in two ways, shapes, far-off numbers.

- *trace*: what a conversion leaves behind (doubled quotes, entities, tags, replacement characters, spaces at the ends
  or doubled), or a value of the column with signs around it (`AK-*` beside `AK`), in at most 5% of the cells.
- *missing*: a word for a missing value where at least as many cells have none, or among numbers.
- shapes, units, widths and spellings: `shapes.py`. Numbers and moments far from the others: `far_off.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import pyarrow.compute as pc

from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.discovery.suspects.far_off import as_numbers, far_off
from holdstrue.discovery.suspects.form_vote import FEW, LEAST_CELLS, OFF, RARE, FormVote
from holdstrue.discovery.suspects.shapes import shape_votes

NOTHING = frozenset(("", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "?", "unknown", "not available"))
"""Words for a missing value."""

ONLY_NOTHING = NOTHING - {"na", "none", "nil", "-", "unknown"}
"""Those of them that are no value of any column: NA is a country, and none an answer."""

TRACES: tuple[tuple[str, str, str], ...] = (
    (r"''|\"\"", r"(['\"])\1", r"\1"),
    (r"&(?:nbsp|amp|lt|gt|quot|#[0-9]+);?", r"", ""),
    (r"</?[a-zA-Z]+ ?/?>", r"</?[a-zA-Z]+ ?/?>", ""),
    ("\ufffd|Ã[\u0080-\u00bf]|â€|\\pL[?]\\pL", "", ""),
    (r"^\s|\s$|\s\s", r"\s+", " "),
)
"""What is looked for, and what is put in the place of what; nothing where it is not known how the value should be."""


def form_votes(cells: CodedCells) -> list[FormVote]:
    """What the columns say of their own values. Complexity: O(distinct values), and pairs of rare and common shapes."""
    found: list[FormVote] = []
    for column in range(len(cells.names)):
        if cells.known[column] < LEAST_CELLS:
            continue
        if cells.text_like(column):
            traces = list(_traces(cells, column))
            odd = {vote.code for vote in traces}
            # a word for a missing value is not a wrong one
            words = [at for at, text in enumerate(cells.texts(column)) if text.strip().lower() in NOTHING]
            found += traces
            found += [vote for vote in _missing(cells, column, words) if vote.code not in odd]
            shaped = list(shape_votes(cells, column, odd | {*words}))
            found += shaped
            odd |= {vote.code for vote in shaped}
            found += [vote for vote in far_off(cells, column) if vote.code not in odd]
        else:
            found += far_off(cells, column)
    return found


def _missing(cells: CodedCells, column: int, words: list[int]) -> Iterator[FormVote]:
    """Words for a missing value in a column most of whose missing values are NULL, or few of them among numbers."""
    said = [code for code in words if cells.texts(column)[code].strip().lower() in ONLY_NOTHING]
    if cells.counts[column][said].sum() <= cells.rows - cells.known[column]:
        odd = said
    elif cells.counts[column][words].sum() <= RARE * cells.known[column] and as_numbers(cells, column) is not None:
        odd = words
    else:
        return
    for code in odd:
        yield FormVote(column, code, None, OFF, "missing", True)


def _traces(cells: CodedCells, column: int) -> Iterator[FormVote]:
    values, counts, known = cells.distinct[column], cells.counts[column], cells.known[column]
    texts = cells.texts(column)
    seen: set[int] = set()
    for pattern, wrong, right in TRACES:
        codes = np.flatnonzero(pc.match_substring_regex(values, pattern).to_numpy(zero_copy_only=False))
        if 0 < counts[codes].sum() <= FEW * known:
            for code in codes.tolist():
                if code not in seen:
                    seen.add(code)
                    mended = re.sub(wrong, right, texts[code]).strip() if wrong else None
                    yield FormVote(column, code, mended or None, OFF, "trace", True)
    yield from _edged(cells, column, seen)


def _edged(cells: CodedCells, column: int, seen: set[int]) -> Iterator[FormVote]:
    """Values of the column with signs around them that few cells have."""
    values, counts = cells.distinct[column], cells.counts[column]
    bare = pc.replace_substring_regex(values, r"^[^\pL\pN]+|[^\pL\pN]+$", "")
    edged = pc.and_(pc.not_equal(bare, values), pc.is_in(bare, value_set=values)).to_numpy(zero_copy_only=False)
    signs = pc.replace_substring_regex(values, r"^([^\pL\pN]*).*?([^\pL\pN]*)$", r"\1 \2").dictionary_encode()
    of = signs.indices.to_numpy(zero_copy_only=False)
    usual = np.bincount(of, weights=counts) > FEW * cells.known[column]
    for code in np.flatnonzero(edged & ~usual[of]).tolist():
        if code not in seen:
            yield FormVote(column, code, bare[code].as_py(), OFF, "trace", True)
