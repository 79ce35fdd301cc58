"""Values off the form of their column: traces of conversion, rare spellings of common values, shapes, far-off numbers.

- *trace*: what a conversion leaves behind (doubled quotes, entities, tags, replacement characters, spaces at the ends
  or doubled), or a value of the column with signs around it (`AK-*` beside `AK`), in at most 5% of the cells.
- *shape*: numbers count as one sign (`99.9%` and `7%` are both `9%`). Where at most three main shapes, each of 5% of
  the cells, cover 95% of a column, each of the rest: if the main shapes have no letters, or hold a number and one edit
  in four letters makes one of them.
- *spelling*: a rare shape (at most 2% of the cells) of four letters or more that one edit in seven letters makes a
  shape twenty times as common; in columns most of whose rare shapes are so. A column of names, where rare ones are
  names too, has none.
- *number*: far outside of what 95% of a column's numbers span, by differences and by ratios.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.data.values import family_of
from holdstrue.discovery.suspects.cells import CodedCells, edits_between
from holdstrue.typing import I64

LEAST_CELLS = 20
"""Known cells of a column that say what is usual in it."""

FEW = 0.05
"""What is usual is no error: traces and odd shapes are in no more than this share of the cells."""

RARE, COMMON, TIMES = 0.02, 0.01, 20
"""Rare shapes are in at most, common ones in at least this share of the cells, and are so many times as common."""

MAIN, MOST_MAIN = 0.05, 3
"""The least share of the cells that have a main shape, and how many main shapes a column of one form has at most."""

EDITED, EDITED_FORM = 7, 4
"""One edit in so many letters at most (and one at least) makes a spelling of another: `boxz`, `hosxitals`; but
`Married-AF-spouse` is none of `Married-civ-spouse`. In a column of one form more may be wrong: `xx patients`."""

SHORTEST = 4
"""Letters that a spelling has at least: of codes such as A, N and U each is one edit from the others."""

NOTHING = frozenset(("", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "?", "unknown", "not available"))
"""Words for a missing value."""

NUMBER = r"[0-9]+(?:\.[0-9]+)?"

MOST_SPELLED = 0.6
"""The share of cells with rare shapes that must be spellings: others show that rare values are usual here."""

MOST_PAIRS = 2_000_000
"""Pairs of shapes that are compared in a column, in about a second."""

FAR = 20
"""How many spans of the middle 95% a number lies outside to be far off, and by ratio how many of their logarithms."""

TRACE, SHAPE, SPELLING = 5.0, 5.0, 1.5
"""Weights of the votes; that of a spelling grows by 3 with the share of rare shapes that are spellings."""

TRACES: tuple[tuple[str, str, str], ...] = (
    (r"''|\"\"", r"(['\"])\1", r"\1"),
    (r"&(?:nbsp|amp|lt|gt|quot|#[0-9]+);?", r"", ""),
    (r"</?[a-zA-Z]+ ?/?>", r"</?[a-zA-Z]+ ?/?>", ""),
    ("\ufffd|Ã[\u0080-\u00bf]|â€", "", ""),
    (r"^\s|\s$|\s\s", r"\s+", " "),
)
"""What is looked for, and what is put in the place of what; nothing where it is not known how the value should be."""


@dataclass(frozen=True)
class FormVote:
    """A vote on all cells of a column that have one code: it should be the proposed text, where that is known."""

    column: int
    code: int
    proposed: str | None
    weight: float
    why: str
    mute: bool
    """Whether the value is surely no witness for what other cells should be."""


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
            odd |= {at for at, text in enumerate(cells.texts(column)) if text.strip().lower() in NOTHING}
            found += traces
            found += _shapes(cells, column, odd)
        else:
            found += _far_off(cells, column)
    return found


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
                    yield FormVote(column, code, mended or None, TRACE, "trace", True)
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
            yield FormVote(column, code, bare[code].as_py(), TRACE, "trace", True)


def _shapes(cells: CodedCells, column: int, odd: set[int]) -> Iterator[FormVote]:
    """Shapes and spellings that are off; codes that are `odd` already do not count."""
    shapes = pc.replace_substring_regex(cells.distinct[column], NUMBER, "9")
    shapes = pc.replace_substring_regex(shapes, r"^[-+]9$", "9").dictionary_encode()
    of = shapes.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    texts: list[str] = shapes.dictionary.to_pylist()
    own = cells.counts[column].copy()
    own[list(odd)] = 0
    counts = np.bincount(of, weights=own, minlength=len(texts)).astype(np.int64)
    known = int(own.sum())
    common = np.flatnonzero(counts >= max(10, COMMON * known))
    rare = np.flatnonzero((counts <= max(3, RARE * known)) & (counts > 0))
    if not common.size or not rare.size or rare.size * common.size > MOST_PAIRS:
        return
    votes = _off_form(texts, counts, rare, known)
    spelled = _spelled(texts, counts, rare, common, EDITED)
    share = sum(int(counts[shape]) for shape in spelled) / int(counts[rare].sum())
    if share >= MOST_SPELLED and counts[rare].sum() <= 2 * FEW * known:
        for shape, likely in spelled.items():
            votes.setdefault(shape, (likely, SPELLING + 3 * share, "spelling"))
    for code in np.flatnonzero(np.isin(of, list(votes)) & (own > 0)).tolist():
        target, weight, why = votes[int(of[code])]
        proposed = None if target is None else _filled(texts[target], cells.texts(column)[code])
        yield FormVote(column, code, proposed, weight, why, why == "shape")


def _off_form(texts: Sequence[str], counts: I64, rare: I64, known: int) -> dict[int, tuple[int | None, float, str]]:
    """Shapes that do not fit the few that a column has."""
    main = np.flatnonzero(counts >= MAIN * known)
    if not 0 < main.size <= MOST_MAIN or counts[main].sum() < (1 - FEW) * known:
        return {}
    near = _spelled(texts, counts, rare, main, EDITED_FORM)
    if not any(re.search(r"[^\W\d_]", texts[shape]) for shape in main.tolist()):
        return {int(shape): (near.get(int(shape)), SHAPE, "shape") for shape in np.setdiff1d(rare, main)}
    numbered = {shape for shape in main.tolist() if "9" in texts[shape]}
    return {shape: (target, SHAPE, "shape") for shape, target in near.items() if target in numbered}


def _spelled(texts: Sequence[str], counts: I64, rare: I64, common: I64, edited: int) -> dict[int, int]:
    """Rare shapes with the common shape that each is a spelling of; the nearest, then the commonest, then by text.

    One edit in so many letters at most.
    """
    lengths = np.array([len(text) for text in texts])
    one, other = (grid.ravel() for grid in np.meshgrid(rare, common, indexing="ij"))
    longest = np.maximum(lengths[one], lengths[other])
    most = np.maximum(1, longest // edited)
    near = (
        (counts[other] >= TIMES * counts[one])
        & ((longest >= SHORTEST) | (edited == EDITED_FORM))
        & (np.abs(lengths[one] - lengths[other]) <= most)
    )
    pairs = np.column_stack((one[near], other[near]))
    if not pairs.size:
        return {}
    edits, _ = edits_between(texts, pairs)
    found: dict[int, tuple[int, int, str, int]] = {}
    for (shape, target), distance, limit in zip(pairs.tolist(), edits.tolist(), most[near].tolist(), strict=True):
        if distance <= limit:
            ranked = (distance, -int(counts[target]), texts[target], target)
            found[shape] = min(found.get(shape, ranked), ranked)
    return {shape: ranked[3] for shape, ranked in found.items()}


def _filled(shape: str, text: str) -> str | None:
    """A shape with the numbers of a text in it; None where it has more or fewer.

    >>> _filled("9 patients", "619 paxienxs"), _filled("9%", "9x%"), _filled("9.9", "7")
    ('619 patients', '9%', None)
    """
    numbers = re.findall("[0-9]+", text)
    parts = shape.split("9")
    if len(parts) != len(numbers) + 1:
        return None
    return "".join(part + number for part, number in zip(parts, [*numbers, ""], strict=True))


def _far_off(cells: CodedCells, column: int) -> Iterator[FormVote]:
    if family_of(cells.distinct[column].type) not in ("integer", "float", "decimal"):
        return
    values = pc.cast(cells.distinct[column], pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    counts = cells.counts[column]
    finite = np.isfinite(values)
    # where one value is most of a column, such as no rain, the others have no span to be far from
    if finite.sum() < LEAST_CELLS or cells.known[column] < 100 or 2 * counts.max() > cells.known[column]:
        return
    order = np.argsort(values[finite], kind="stable")
    ranked, summed = values[finite][order], np.cumsum(counts[finite][order])
    low, high = (float(ranked[np.searchsorted(summed, share * summed[-1])]) for share in (0.025, 0.975))
    span = high - low
    if span <= 0:
        return
    far = finite & ((values > high + FAR * span) | (values < low - FAR * span))
    if low > 0:
        ratio = np.log(high / low) + 1
        far &= (values <= 0) | (np.abs(np.log(np.maximum(values, 1e-300) / np.sqrt(high * low))) > 2 * ratio)
    if 0 < counts[far].sum() <= RARE * cells.known[column]:
        for code in np.flatnonzero(far).tolist():
            yield FormVote(column, code, None, SHAPE, "number", True)
