"""The search for suspects in one table: forms, sources and rules vote, and the votes are counted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.discovery.suspects.answer import Suspect
from holdstrue.discovery.suspects.cells import CodedCells
from holdstrue.discovery.suspects.chains import OrderRule, vote_order
from holdstrue.discovery.suspects.declared import DeclaredRules
from holdstrue.discovery.suspects.forms import form_votes
from holdstrue.discovery.suspects.reporters import find_reports, judge
from holdstrue.discovery.suspects.systematic import systematic
from holdstrue.discovery.suspects.verdict import Verdict, Votes, confidence, decide
from holdstrue.discovery.suspects.votes import UNKNOWN, Ballot, vote
from holdstrue.discovery.suspects.voting_rules import VotingRule, learned
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.typing import I32, I64, Mask

WITNESSES = 3
"""Rows that are named for each suspect."""

CHUNK = 64
"""Rows among which they are looked for first; twice as many each time that they do not suffice. Chosen, not tuned."""

SURE = 0.999
"""Confidence at most."""

REPORTED = 1.7
"""Log odds that what sources say together is right when two values weigh the same: 0.85 on flights."""

STOPPED = "the search for rules stopped for want of time: there may be more suspects"

Name = Callable[[int], Any]
Declared = Callable[[CodedCells], DeclaredRules]


class SuspectSearch:
    """Finds the suspects of a table.

    `declared` makes rules that people wrote of the cells; `learn` says whether rules are looked for as well.
    """

    def __init__(self, table: pa.Table, declared: Declared | None, *, learn: bool, work: Work) -> None:
        self.cells = CodedCells(table)
        self.notes: list[str] = []
        self.rules: list[VotingRule | OrderRule] = []
        self._required: list[tuple[int, str]] = []
        self._forms = form_votes(self.cells) if learn else []
        self._proposals: list[list[str]] = [[] for _ in self.cells.names]
        self._numbers: dict[int, dict[str, int]] = {}
        self._said_of: dict[tuple[int, int], list[str]] = {}
        for form in self._forms:
            self._said_of.setdefault((form.column, form.code), []).append(form.why)
        self._work = work
        self.reports = find_reports(self.cells) if learn else None
        """In what form several sources report the same things, if they do."""
        codes = self._witnesses()
        self._codes = codes
        if declared is not None:
            given = declared(self.cells)
            self.rules += [*given.dependencies, *given.orders]
            self._required = given.required
            self.notes += given.notes
        if learn:
            try:
                found, unlooked = learned(self.cells, codes, work)
                self.notes += unlooked
            except OutOfTimeError:
                found = []
                self.notes.append(STOPPED)
            reported = set() if self.reports is None else set(self.reports.columns)
            said = {(rule.left, rule.right) for rule in self.rules if isinstance(rule, VotingRule)}
            self.rules += [
                rule
                for rule in found
                if not reported & {*rule.left, rule.right} and (rule.left, rule.right) not in said
            ]

    def _witnesses(self) -> I32:
        """The codes without those of values that are surely no witnesses."""
        codes = self.cells.codes.copy()
        for column in range(len(self.cells.names)):
            muted = [one.code for one in self._forms if one.column == column and one.mute]
            if muted:
                codes[column, np.isin(codes[column], muted)] = -1
        return codes

    def found(self, name: Name) -> tuple[list[Suspect], list[int]]:
        """The suspects, the surest first, and the row of each."""
        ballot, cells = Ballot(), self.cells
        against = np.zeros(cells.codes.shape)
        for number, rule in enumerate(self.rules):
            if isinstance(rule, OrderRule):
                vote_order(cells, number, rule, ballot)
            else:
                vote(cells, self._codes, number, rule, ballot, against)
        self._vote_forms(ballot)
        votes = Votes.of(ballot)
        verdict = decide(cells, votes, against, self.rules, self._proposals)
        lines = [self._suspect(verdict, votes, number, name) for number in range(verdict.rows.size)]
        lines += self._misreported(name)
        taken = {(row, suspect.column) for row, suspect in lines}
        lines += [(row, suspect) for row, suspect in self._absent(name) if (row, suspect.column) not in taken]
        lines.sort(key=lambda line: (-line[1].confidence, line[1].column, line[0]))
        return [suspect for _, suspect in lines], [row for row, _ in lines]

    def _vote_forms(self, ballot: Ballot) -> None:
        """Cast the votes of forms. Complexity: O(columns * rows) for a column that has spellings, else O(rows)."""
        cells = self.cells
        reported = set() if self.reports is None else set(self.reports.columns)
        for column in {form.column: None for form in self._forms}:
            if column in reported:
                continue
            own = [form for form in self._forms if form.column == column]
            spelled = [form.code for form in own if form.why == "spelling"]
            usual = self._usually_spelled(column, spelled) if spelled else None
            rows, starts = cells.rows_by_code(column)
            for form in own:
                at = rows[starts[form.code] : starts[form.code + 1]].astype(np.int64)
                if usual is not None and form.why == "spelling":
                    at = at[~usual[at]]
                code = self._code(column, form.proposed)
                ballot.cast(at, column, np.full(at.size, code), np.full(at.size, form.weight), len(self.rules))

    def _usually_spelled(self, column: int, codes: list[int]) -> Mask:
        """Rows whose value in another column goes with being spelled so."""
        cells = self.cells
        spelled, known = np.isin(cells.codes[column], codes), cells.codes[column] >= 0
        found = np.zeros(cells.rows, dtype=np.bool_)
        for other in range(len(cells.names)):
            if other != column:
                found |= systematic(cells.codes[other], cells.counts[other].size, spelled, known)
        return found

    def _code(self, column: int, text: str | None) -> int:
        """The code of a proposed text, a new one where no cell has it."""
        if text is None:
            return UNKNOWN
        more = self._proposals[column]
        if column not in self._numbers:
            texts = self.cells.texts(column)
            # of values that are the same text, as of other types, the first
            self._numbers[column] = {texts[code]: code for code in range(len(texts) - 1, -1, -1)}
        numbers = self._numbers[column]
        if text not in numbers:
            numbers[text] = self.cells.counts[column].size + len(more)
            more.append(text)
        return numbers[text]

    def _value(self, column: int, code: int) -> Any:
        if code == UNKNOWN:
            return None
        known = self.cells.counts[column].size
        if code < known:
            return self.cells.value(column, code)
        return self.cells.read(column, self._proposals[column][code - known])

    def _suspect(self, verdict: Verdict, votes: Votes, number: int, name: Name) -> tuple[int, Suspect]:
        cells = self.cells
        row, column, code = (int(part[number]) for part in (verdict.rows, verdict.columns, verdict.codes))
        why: list[str] = []
        for at in verdict.votes[number].tolist():
            rule = int(votes.rules[at])
            if rule < len(self.rules):
                why.append(rule_text(self.rules[rule], cells.names))
            else:
                held = int(cells.codes[column][row])
                why += self._said_of.get((column, held), [])
        held = int(cells.codes[column][row])
        value = None if held < 0 else cells.value(column, held)
        witnesses = self._witnesses_of(verdict, votes, number)
        suspect = Suspect(
            name(row),
            cells.names[column],
            value,
            self._value(column, code),
            confidence(float(verdict.scores[number])),
            tuple(dict.fromkeys(why)),
            tuple(name(witness) for witness in witnesses),
        )
        return row, suspect

    def _witnesses_of(self, verdict: Verdict, votes: Votes, number: int) -> list[int]:
        """Some rows that have the proposed value and agree with the row in the rest of the weightiest rule."""
        row, column, code = (int(part[number]) for part in (verdict.rows, verdict.columns, verdict.codes))
        for at in verdict.votes[number].tolist():
            rule = int(votes.rules[at])
            chosen = self.rules[rule] if rule < len(self.rules) else None
            if isinstance(chosen, VotingRule) and code != UNKNOWN and votes.codes[at] == code:
                rest = [other for other in (*chosen.left, chosen.right) if other != column]
                asked = rest if column == chosen.right or len(rest) > 1 else [chosen.right]
                return self._first_with([(column, code), *((other, int(self._codes[other][row])) for other in asked)])
        return []

    def _first_with(self, wanted: list[tuple[int, int]]) -> list[int]:
        """The first rows that are witnesses for some values at once, looked for among those with the rarest of them."""
        cells = self.cells
        if any(code >= cells.counts[column].size for column, code in wanted):
            return []
        rarest, code = min((one for one in wanted if one[1] >= 0), key=lambda one: cells.counts[one[0]][one[1]])
        rows, starts = cells.rows_by_code(rarest)
        rows = rows[starts[code] : starts[code + 1]]
        found: list[int] = []
        at, size = 0, CHUNK
        while at < rows.size and len(found) < WITNESSES:
            some = rows[at : at + size]
            for column, held in wanted:
                some = some[self._codes[column][some] == held]
            found += some.tolist()
            at, size = at + size, 2 * size
        return found[:WITNESSES]

    def _absent(self, name: Name) -> list[tuple[int, Suspect]]:
        """Missing values of columns that are declared to have one, where nothing proposed what it should be."""
        return [
            (row, Suspect(name(row), self.cells.names[column], None, None, SURE, (rule,)))
            for column, rule in self._required
            for row in np.flatnonzero(self.cells.codes[column] < 0).tolist()
        ]

    def _misreported(self, name: Name) -> list[tuple[int, Suspect]]:
        """Reports that differ from what the sources together say."""
        reports, cells = self.reports, self.cells
        if reports is None:
            return []
        verdicts = judge(cells, reports)
        thing, source = cells.names[reports.thing], cells.names[reports.source]
        lines = []
        for number, column in enumerate(reports.columns):
            true = verdicts.true[number]
            rows = np.flatnonzero((true >= 0) & (cells.codes[column] != true))
            why = (f"{thing} -> {cells.names[column]}", f"sources by {source}")
            agree = _by_thing(cells, reports.thing, column, true)
            for row in rows.tolist():
                held = int(cells.codes[column][row])
                suspect = Suspect(
                    name(row),
                    cells.names[column],
                    None if held < 0 else cells.value(column, held),
                    cells.value(column, int(true[row])),
                    min(SURE, float(1 / (1 + np.exp(-verdicts.lead[number][row] / 2 - REPORTED)))),
                    why,
                    tuple(name(other) for other in agree.get(int(cells.codes[reports.thing][row]), ())),
                )
                lines.append((row, suspect))
        return lines


def _by_thing(cells: CodedCells, thing: int, column: int, true: I64) -> dict[int, list[int]]:
    """Some rows by thing that report what is taken for true."""
    found: dict[int, list[int]] = {}
    for row in np.flatnonzero((true >= 0) & (cells.codes[column] == true)).tolist():
        rows = found.setdefault(int(cells.codes[thing][row]), [])
        if len(rows) < WITNESSES:
            rows.append(row)
    return found


def rule_text(rule: VotingRule | OrderRule, names: tuple[str, ...]) -> str:
    """A rule as people know it: by the name they gave it, or as text that `check` accepts."""
    return rule.declared if isinstance(rule, OrderRule) else rule.text(names)


def find_suspects(
    table: pa.Table, declared: Declared | None, *, learn: bool, work: Work, name: Name
) -> tuple[list[Suspect], list[int], Sequence[str], Sequence[str]]:
    """The suspects of a table with the row of each, the rules that voted, and notes."""
    search = SuspectSearch(table, declared, learn=learn, work=work)
    suspects, rows = search.found(name)
    return (
        suspects,
        rows,
        list(dict.fromkeys(rule_text(rule, search.cells.names) for rule in search.rules)),
        search.notes,
    )
