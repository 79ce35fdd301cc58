"""Shapes of texts: what their letters, signs and numbers look like, and which of them are off.

- *shape*: numbers count as one sign (`99.9%` and `7%` are both `9%`). Where at most three main shapes, each of 5% of
  the cells, cover 95% of a column, each of the rare ones: if the main shapes have no letters or all hold a number, or
  one edit in four letters makes one of them that does. Where one shape without letters covers 90%, each of the rest.
  A value as common as half of the values are, and shapes of 15 cells, stay where nothing says what they should be.
  Where there are no such shapes, words count as one sign too (`KL1204` is `A9`, `anna@b.org` is `a@a.a`), if each main
  one holds a number or a sign that plain words do not have; and if that does not help, words with numbers in them do.
- *unit*: a number with a word or a sign beside it, in a column most of whose cells are plain numbers (`12 oz`).
- *width*: more or fewer digits than 98% of a form have, where some begin with 0: these are codes and no numbers.
- *letters*: a rare value that differs in case and signs alone from one much more common, `Moore, Ann` from `Ann Moore`.
- *spelling*: a rare shape (at most 2% of the cells) of four letters or more that one edit in seven letters makes a
  shape twenty times as common, or one that comes once of one that comes five times; in columns most of whose rare
  shapes are so. A column of names, where rare ones are names too, has none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdstrue.discovery.suspects.cells import CodedCells, edits_between
from holdstrue.discovery.suspects.form_vote import FEW, NUMBER, OFF, RARE, FormVote
from holdstrue.typing import I64

COMMON, TIMES = 0.01, 20
"""Common shapes are in at least this share of the cells, and so many times as often as those that are theirs spelt."""

SEVERAL = 5
"""A text that comes once may be one spelt wrong that comes so often, or written otherwise."""

LOOKED_AT = 100
"""Values of a main shape whose numbers are measured."""

KIND = 15
"""Cells of one rare shape from which on they are of another kind, where nobody knows what they should be instead."""

OFTEN = 50
"""So many times as often comes what several cells write otherwise: `PASS` for `Pass`; but both may be names."""

MAIN, MOST_MAIN = 0.05, 3
"""The least share of the cells that have a main shape, and how many main shapes a column of one form has at most."""

BARE_OFF = 0.1
"""The share of cells that may be off the one shape of a column, if it has no letters: `2026-11-19`. Of airport's
coordinates, of three shapes, 3% have a fourth and are right."""

MOST_UNITS = 0.2
"""The share of cells that may have a unit."""

ZEROS = 0.005
"""The least share of codes that begin with 0, for all to be filled up with it; more than as many others of one width
are codes of another kind."""

EDITED, EDITED_FORM = 7, 4
"""One edit in so many letters at most (and one at least) makes a spelling of another: `boxz`, `hosxitals`; but
`Married-AF-spouse` is none of `Married-civ-spouse`. In a column of one form more may be wrong: `xx patients`."""

SHORTEST = 4
"""Letters that a spelling has at least: of codes such as A, N and U each is one edit from the others."""

MOST_SPELLED = 0.6
"""The share of cells with rare shapes that must be spellings: others show that rare values are usual here."""

MOST_ALIKE = 0.2
"""Where more of the texts that come several times are spellings of another such text, closeness says nothing."""

MOST_PAIRS = 2_000_000
"""Pairs of shapes that are compared in a column, in about a second."""

SPELLING = 1.5
"""The weight of a spelling's vote, which grows by 3 with the share of rare shapes that are spellings."""

_LETTER = r"[^\W\d_]"
_OWN_SIGN = r"[9@/:#\\=+|;<>{}\[\]_&*%$€£]"
"""A number, or a sign that words and names do not have."""
_UNIT = rf"^9\s*{_LETTER}{{2}}[^0-9]*$|^9\s*[%$€£°][\w]*$|^[$€£]\s*9$"


class Odd(NamedTuple):
    """What is said of a value."""

    proposed: str | None
    weight: float
    why: str


def shape_votes(cells: CodedCells, column: int, odd: set[int]) -> Iterator[FormVote]:
    """Votes on shapes, units, widths and spellings that are off; codes that are `odd` already do not count.

    Complexity: O(distinct values), and pairs of rare and common shapes.
    """
    own = cells.counts[column].copy()
    own[list(odd)] = 0
    if not own.any():
        return
    values = cells.distinct[column]
    numbers = numbers_as_one(values)
    plain, words = Shapes.of(numbers, own), Shapes.of(words_as_one(numbers), own)
    said: dict[int, Odd] = {}
    for found in (
        _units(plain, values),
        _off(plain, words, values, own),
        _widths(words, values, own),
        _same_letters(values, own),
        _spelt(plain, values),
    ):
        for code, one in found.items():
            said.setdefault(code, one)
    for code in sorted(said):
        if own[code]:
            yield FormVote(column, code, *said[code], mute=said[code].why != "spelling")


def numbers_as_one(values: pa.Array) -> pa.Array:
    """Texts with every number as one sign.

    >>> numbers_as_one(pa.array(["99.9%", "-3", "KL1204"])).to_pylist()
    ['9%', '9', 'KL9']
    """
    return pc.replace_substring_regex(pc.replace_substring_regex(values, NUMBER, "9"), r"^[-+]9$", "9")


def words_as_one(values: pa.Array) -> pa.Array:
    """Texts with every word as one sign, which says whether it has small letters.

    >>> words_as_one(pa.array(["KL9", "Anna B@x.org"])).to_pylist()
    ['A9', 'a A@a.a']
    """
    small = pc.replace_substring_regex(values, r"\pL*\p{Ll}\pL*", "\x00")
    return pc.replace_substring(pc.replace_substring_regex(small, r"\pL+", "A"), "\x00", "a")


@dataclass(frozen=True)
class Shapes:
    """The shapes of some values.

    >>> shapes = Shapes.of(numbers_as_one(pa.array(["12 cm", "7.5 cm", "-3"])), np.array([4, 1, 2]))
    >>> shapes.texts, shapes.counts.tolist()
    (('9 cm', '9'), [5, 2])
    """

    by_code: I64
    """Which shape each value has."""
    texts: tuple[str, ...]
    counts: I64
    """How many cells have each."""

    @staticmethod
    def of(shapes: pa.Array, own: I64) -> Shapes:
        """The shapes of values that so many cells have each."""
        coded = shapes.dictionary_encode()
        by_code = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
        counts = np.bincount(by_code, weights=own, minlength=len(coded.dictionary)).astype(np.int64)
        return Shapes(by_code, tuple(coded.dictionary.to_pylist()), counts)

    @property
    def known(self) -> int:
        """How many cells count."""
        return int(self.counts.sum())

    @property
    def rare(self) -> I64:
        """Shapes that few cells have."""
        return np.flatnonzero((self.counts <= max(3, RARE * self.known)) & (self.counts > 0))

    @property
    def main(self) -> I64:
        """Shapes that many cells have."""
        return np.flatnonzero(self.counts >= MAIN * self.known)

    def codes(self, shapes: Sequence[int]) -> list[int]:
        """The values that have some shapes."""
        found: list[int] = np.flatnonzero(np.isin(self.by_code, list(shapes))).tolist()
        return found


def _off(plain: Shapes, words: Shapes, values: pa.Array, own: I64) -> dict[int, Odd]:
    """Values of shapes that are not among the few that a column has."""
    off = _off_plain(plain, words) if _of_few(plain) else None
    shapes = plain
    if off is None:
        off, shapes = (_off_words(words) if _of_few(words) else None), words
    if off is None:
        numbered = pc.replace_substring_regex(values, r"[\pL\pN]*\pL[\pL\pN]*", "a")
        shapes = Shapes.of(numbers_as_one(numbered), own)
        off = _off_words(shapes) if _of_few(shapes) else None
    at = {code: (off or {})[int(shapes.by_code[code])] for code in shapes.codes(list(off or ()))}
    found = {code: _filled(shapes.texts, shape, values[code].as_py()) for code, shape in at.items()}
    honest = own >= max(SEVERAL, float(np.median(own[own > 0])))
    honest |= (shapes.counts >= max(KIND, ZEROS * shapes.known))[shapes.by_code]
    honest[[code for code in at if _written_otherwise(shapes, code, values)]] = False
    return {code: Odd(likely, OFF, "shape") for code, likely in found.items() if likely is not None or not honest[code]}


def _written_otherwise(shapes: Shapes, code: int, values: pa.Array) -> bool:
    """Whether a value has the numbers of the one main shape between other signs, none longer than there.

    `3-7-12` beside `11/28/19` is a day written otherwise; `+44 20 79460000` beside `312-555-0199` is abroad.
    """
    own, usual = shapes.texts[shapes.by_code[code]], int(shapes.counts.argmax())
    if re.search(_LETTER, own + shapes.texts[usual]) or own.count("9") != shapes.texts[usual].count("9"):
        return False
    numbers = _widths_of(values[code].as_py())
    like = [_widths_of(values[at].as_py()) for at in np.flatnonzero(shapes.by_code == usual)[:LOOKED_AT].tolist()]
    # a number with a fraction is one of its shape, and two here
    like = [widths for widths in like if len(widths) == len(numbers)]
    return bool(like) and all(own <= max(widths) for own, *widths in zip(numbers, *like, strict=True))


def _widths_of(text: str) -> list[int]:
    return [len(number) for number in re.findall("[0-9]+", text)]


def _of_few(shapes: Shapes) -> bool:
    main = shapes.main
    return 0 < main.size <= MOST_MAIN and bool(shapes.counts[main].sum() >= (1 - BARE_OFF) * shapes.known)


def _off_plain(shapes: Shapes, words: Shapes) -> dict[int, int | None] | None:
    """Shapes that are off with the main one that each should have, where it is known; None where there is no form."""
    main, rare = shapes.main, np.setdiff1d(shapes.rare, shapes.main)
    near: dict[int, int | None] = {**_nearest(shapes, rare, main, EDITED_FORM, TIMES, 1)}
    bare = not any(re.search(_LETTER, shapes.texts[shape]) for shape in main.tolist())
    if bare and main.size == 1:
        # the same numbers between other signs are the same thing written in another way
        many = shapes.texts[main[0]].count("9")
        alike = [
            shape
            for shape, text in enumerate(shapes.texts)
            if many and text.count("9") == many and shape != main[0] and not re.search(_LETTER, text)
        ]
        near = dict.fromkeys(alike) | near
        rest = (1 - FEW) * shapes.known - shapes.counts[alike].sum()
        return dict.fromkeys(rare.tolist()) | near if shapes.counts[main[0]] >= rest else near or None
    if shapes.counts[main].sum() < (1 - FEW) * shapes.known:
        return None
    if bare:
        return dict.fromkeys(rare.tolist()) | near
    numbered = {shape for shape in main.tolist() if "9" in shapes.texts[shape]}
    if numbered == {*main.tolist()}:
        # other words in the places of words are no other form: `AT61` beside `DE89`
        forms = dict(zip(shapes.by_code.tolist(), words.by_code.tolist(), strict=True))
        usual = {forms[shape] for shape in numbered}
        other = {shape for shape in _rare_forms(shapes) if forms[shape] not in usual}
        return {shape: near.get(shape) for shape in rare.tolist() if shape in near or shape in other}
    return {shape: target for shape, target in near.items() if target in numbered} or None


def _off_words(shapes: Shapes) -> dict[int, int | None] | None:
    main = shapes.main
    if shapes.counts[main].sum() < (1 - FEW) * shapes.known:
        return None
    if not all(re.search(_OWN_SIGN, shapes.texts[shape]) for shape in main.tolist()):
        return None
    return dict.fromkeys(_rare_forms(shapes))


def _rare_forms(shapes: Shapes) -> list[int]:
    """Rare shapes: of codes, which know many forms, only those that hardly any have (`NL97ABNA0584` beside `DE89`)."""
    codes = not any(re.search(r"[\sa-z]", shapes.texts[shape]) for shape in shapes.main.tolist())
    rare = np.setdiff1d(shapes.rare, shapes.main)
    found: list[int] = rare[shapes.counts[rare] <= max(3, ZEROS * shapes.known)].tolist() if codes else rare.tolist()
    return found


def _units(plain: Shapes, values: pa.Array) -> dict[int, Odd]:
    """Numbers with a unit among plain numbers."""
    if "9" not in plain.texts:
        return {}
    number = plain.texts.index("9")
    units = [at for at, text in enumerate(plain.texts) if re.search(_UNIT, text)]
    shares = plain.counts / plain.known
    if not units or shares[units].sum() > MOST_UNITS or shares[number] < 1 - MOST_UNITS - FEW:
        return {}
    return {code: Odd(_filled(plain.texts, number, values[code].as_py()), OFF, "shape") for code in plain.codes(units)}


def _widths(words: Shapes, values: pa.Array, own: I64) -> dict[int, Odd]:
    """Codes that have more or fewer digits than the others of their form, where these are filled up with zeros."""
    zeros = pc.match_substring_regex(values, r"(^|[^0-9.,])0[0-9]").to_numpy(zero_copy_only=False)
    found: dict[int, Odd] = {}
    distinct = np.count_nonzero(own) > (1 - FEW) * own.sum()
    for form in words.main.tolist():
        codes = np.flatnonzero((words.by_code == form) & (own > 0))
        if "9" not in words.texts[form] or not codes.size:
            continue
        chosen = values.take(pa.array(codes))
        wide = Shapes.of(words_as_one(pc.replace_substring_regex(chosen, "[0-9]", "0")), own[codes])
        main = int(wide.counts.argmax())
        like, others = codes[wide.by_code == main], codes[wide.by_code != main]
        filled = like[zeros[like]]
        if (
            wide.counts[main] >= (1 - RARE) * wide.known
            and filled.size >= 3
            and own[filled].sum() >= ZEROS * wide.known
        ):
            width, rare = wide.texts[main].count("0"), wide.counts <= max(3, ZEROS * wide.known)
            for code in others[rare[wide.by_code[wide.by_code != main]]].tolist():
                likely = _padded(values[code].as_py(), width)
                # where all are different, another one has that value
                if not distinct or likely is None or not pc.index(values, likely).as_py() >= 0:
                    found[code] = Odd(likely, OFF, "shape")
    return found


def _padded(text: str, width: int) -> str | None:
    """A text with zeros before its only number, so that it has so many digits; None where that cannot be.

    >>> _padded("SO-2034", 6), _padded("00006159.0", 8), _padded("1-2", 4)
    ('SO-002034', None, None)
    """
    numbers = re.findall("[0-9]+", text)
    if len(numbers) != 1 or len(numbers[0]) >= width:
        return None
    return text.replace(numbers[0], numbers[0].zfill(width))


def _same_letters(values: pa.Array, own: I64) -> dict[int, Odd]:
    """Values that differ from one that comes far more often in case and signs alone, or by turning round a comma."""
    if own.max() < SEVERAL:
        return {}
    lower = pc.utf8_lower(values)
    # spaces stay: DU PONT and DUPONT are two towns
    letters = pc.replace_substring_regex(lower, r"[^\pL\pN\s]+", "")
    # few letters with other signs are other things (C, C++ and C#), and so are numbers
    keys = [pc.if_else(pc.greater_equal(pc.utf8_length(letters), SHORTEST - 1), letters, lower)]
    turned = pc.match_substring_regex(values, r"^[^,]+,[^,]+$")
    if pc.any(turned).as_py():
        # `Moore, Ann` is Ann Moore; without the comma it may be another one
        parts = pc.replace_substring_regex(values, r"^([^,]+),\s*([^,]+)$", r"\2 \1")
        keys.append(pc.utf8_lower(parts))
    texts = pc.match_substring_regex(values, r"\pL").to_numpy(zero_copy_only=False)
    order = np.argsort(own, kind="stable")[::-1]
    rare = (own > 0) & (own <= max(3, RARE * int(own.sum()))) & texts
    found: dict[int, Odd] = {}
    for key in keys:
        of = key.dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)
        best = np.full(int(of.max(initial=-1)) + 2, -1, dtype=np.int64)
        # the first in this order is the commonest of its key
        numbers, first = np.unique(of[order], return_index=True)
        best[numbers] = order[first]
        other = best[of]
        often = own[other] >= np.where(own == 1, SEVERAL, OFTEN * own)
        for code in np.flatnonzero(rare & (of >= 0) & often).tolist():
            found.setdefault(code, Odd(values[int(other[code])].as_py(), OFF, "letters"))
    return found


def _spelt(plain: Shapes, values: pa.Array) -> dict[int, Odd]:
    """Spellings of common shapes, and of texts that come several times."""
    found: dict[int, Odd] = {}
    common = np.flatnonzero(plain.counts >= max(10, COMMON * plain.known))
    several, once = np.flatnonzero(plain.counts >= SEVERAL), np.flatnonzero(plain.counts == 1)
    for rare, others, times in ((plain.rare, common, TIMES), (once, several, SEVERAL)):
        few = int(plain.counts[rare].sum())
        if not rare.size or not others.size or rare.size * others.size > MOST_PAIRS or few > 2 * FEW * plain.known:
            continue
        spelt = _nearest(plain, rare, others, EDITED, times, SHORTEST)
        share = sum(int(plain.counts[shape]) for shape in spelt) / few
        if share >= MOST_SPELLED and not (rare is once and _alike(plain, several)):
            for code in plain.codes(list(spelt)):
                likely = _filled(plain.texts, spelt[int(plain.by_code[code])], values[code].as_py())
                found.setdefault(code, Odd(likely, SPELLING + 3 * share, "spelling"))
    return found


def _alike(plain: Shapes, several: I64) -> bool:
    """Whether texts that come several times are close to each other anyway, such as names with a letter behind them."""
    chosen = several[: int(MOST_PAIRS**0.5)]
    level = Shapes(plain.by_code, plain.texts, np.ones_like(plain.counts))
    return len(_nearest(level, chosen, chosen, EDITED, 1, SHORTEST)) > MOST_ALIKE * chosen.size


def _nearest(shapes: Shapes, rare: I64, common: I64, edited: int, times: int, shortest: int) -> dict[int, int]:
    """Rare shapes with the common shape that each is a spelling of; the nearest, then the commonest, then by text.

    One edit in so many letters at most; common ones are so many times as common.
    """
    lengths, counts = np.array([len(text) for text in shapes.texts]), shapes.counts
    one, other = (grid.ravel() for grid in np.meshgrid(rare, common, indexing="ij"))
    longest = np.maximum(lengths[one], lengths[other])
    most = np.maximum(1, longest // edited)
    near = (counts[other] >= times * counts[one]) & (longest >= shortest)
    near &= (np.abs(lengths[one] - lengths[other]) <= most) & (one != other)
    pairs = np.column_stack((one[near], other[near]))
    if not pairs.size:
        return {}
    edits, _ = edits_between(shapes.texts, pairs)
    found: dict[int, tuple[int, int, str, int]] = {}
    for (shape, target), distance, limit in zip(pairs.tolist(), edits.tolist(), most[near].tolist(), strict=True):
        if distance <= limit:
            ranked = (distance, -int(counts[target]), shapes.texts[target], target)
            found[shape] = min(found.get(shape, ranked), ranked)
    return {shape: ranked[3] for shape, ranked in found.items()}


def _filled(shapes: Sequence[str], target: int | None, text: str) -> str | None:
    """A shape with the numbers of a text in it; None where it is not known or has more or fewer.

    >>> _filled(["9 patients"], 0, "619 paxienxs"), _filled(["9%"], 0, "9x%"), _filled(["9"], 0, "7.5 oz")
    ('619 patients', '9%', '7.5')
    >>> _filled(["9.9"], 0, "7"), _filled(["9"], None, "7")
    (None, None)
    """
    if target is None:
        return None
    numbers, parts = re.findall(NUMBER, text), shapes[target].split("9")
    if len(parts) != len(numbers) + 1:
        return None
    return "".join(part + number for part, number in zip(parts, [*numbers, ""], strict=True))
