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
from holdstrue.discovery.suspects.form_vote import FormVote
from holdstrue.discovery.suspects.forms import form_votes
from holdstrue.discovery.suspects.reporters import find_reports, judge
from holdstrue.discovery.suspects.systematic import systematic
from holdstrue.discovery.suspects.verdict import CALIBRATED, Verdict, Votes, decide
from holdstrue.discovery.suspects.votes import UNKNOWN, Ballot, vote
from holdstrue.discovery.suspects.voting_rules import VotingRule, learned
from holdstrue.discovery.work import OutOfTimeError, Work
from holdstrue.typing import I32, I64

WITNESSES = 3
"""Rows that are named for each suspect."""

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
        self._work = work
        self._reports = find_reports(self.cells) if learn else None
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
            reported = set() if self._reports is None else set(self._reports.columns)
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
        reported = set() if self._reports is None else set(self._reports.columns)
        for form in self._forms:
            if form.column not in reported:
                self._vote_form(form, ballot)
        votes = Votes.of(ballot)
        verdict = decide(cells, votes, against, self.rules, self._proposals)
        lines = [self._suspect(verdict, votes, number, name) for number in range(verdict.rows.size)]
        lines += self._misreported(name)
        taken = {(row, suspect.column) for row, suspect in lines}
        lines += [(row, suspect) for row, suspect in self._absent(name) if (row, suspect.column) not in taken]
        lines.sort(key=lambda line: (-line[1].confidence, line[1].column, line[0]))
        return [suspect for _, suspect in lines], [row for row, _ in lines]

    def _vote_form(self, form: FormVote, ballot: Ballot) -> None:
        cells = self.cells
        flagged = cells.codes[form.column] == form.code
        if form.why == "spelling":
            spelled = np.isin(
                cells.codes[form.column],
                [one.code for one in self._forms if one.column == form.column and one.why == "spelling"],
            )
            for other in range(len(cells.names)):
                if other != form.column:
                    known = cells.codes[form.column] >= 0
                    flagged &= ~systematic(cells.codes[other], cells.counts[other].size, spelled, known)
        rows = np.flatnonzero(flagged)
        code = self._code(form.column, form.proposed)
        ballot.cast(rows, form.column, np.full(rows.size, code), np.full(rows.size, form.weight), len(self.rules))

    def _code(self, column: int, text: str | None) -> int:
        """The code of a proposed text, a new one where no cell has it."""
        if text is None:
            return UNKNOWN
        texts, more = self.cells.texts(column), self._proposals[column]
        if text in texts:
            return texts.index(text)
        if text not in more:
            more.append(text)
        return len(texts) + more.index(text)

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
                why += [one.why for one in self._forms if (one.column, one.code) == (column, held)]
        held = int(cells.codes[column][row])
        confidence = min(SURE, float(1 / (1 + np.exp(-verdict.scores[number] - CALIBRATED))))
        value = None if held < 0 else cells.value(column, held)
        witnesses = self._witnesses_of(verdict, votes, number)
        suspect = Suspect(
            name(row),
            cells.names[column],
            value,
            self._value(column, code),
            confidence,
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
                agree = self._codes[column] == code
                for other in rest if column == chosen.right or len(rest) > 1 else [chosen.right]:
                    agree &= self._codes[other] == self._codes[other][row]
                return np.flatnonzero(agree)[:WITNESSES].tolist()
        return []

    def _absent(self, name: Name) -> list[tuple[int, Suspect]]:
        """Missing values of columns that are declared to have one, where nothing proposed what it should be."""
        return [
            (row, Suspect(name(row), self.cells.names[column], None, None, SURE, (rule,)))
            for column, rule in self._required
            for row in np.flatnonzero(self.cells.codes[column] < 0).tolist()
        ]

    def _misreported(self, name: Name) -> list[tuple[int, Suspect]]:
        """Reports that differ from what the sources together say."""
        reports, cells = self._reports, self.cells
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
