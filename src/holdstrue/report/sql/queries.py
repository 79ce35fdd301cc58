"""Checks as queries: who violates a rule is said by its checks, and each shape of check is one shape of query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from holdstrue.data.values import family_of
from holdstrue.operators import Op
from holdstrue.plan.checks import Check, GroupCheck, PairCheck, ReferenceCheck, RowCheck
from holdstrue.report.sql.comparisons import is_mixed, mixed, symbol, widened, with_constant
from holdstrue.report.sql.dialect import NoSuchSqlError, SqlDialect
from holdstrue.rules.model import All, Any, Comparison, Condition, Constant, IsNull, Length, Matches, Not


@dataclass
class Writing:
    """One rule being written: the dialect, what its tables are called, their keys and types, and what is to be said."""

    dialect: SqlDialect
    names: Mapping[str, str]
    keys: Mapping[str, tuple[str, ...]]
    schemas: Mapping[str, Mapping[str, pa.DataType]]
    notes: dict[str, None] = field(default_factory=dict)

    # --- parts ---------------------------------------------------------------------------------

    def cell(self, row: str, column: str) -> str:
        """A column of a row."""
        return f"{row}.{self.dialect.identifier(column)}"

    def type_of(self, table: str, column: str) -> pa.DataType | None:
        """What a column holds, as far as that is known."""
        return self.schemas.get(table, {}).get(column)

    def source(self, table: str, row: str) -> str:
        """A table whose rows are called so."""
        return f"{self.dialect.table(self.names.get(table, table))} AS {row}"

    def compared(self, left: tuple[str, str, str], op: Op, right: tuple[str, str, str]) -> str:
        """A column of a row against a column of a row, each given as table, row and column."""
        types = (self.type_of(left[0], left[2]), self.type_of(right[0], right[2]))
        cast, inexact = widened(types, self.dialect)
        one, other = (self.cell(row, column) for _, row, column in (left, right))
        if is_mixed(*types):
            return self._mixed(one, op, other, types)
        if inexact is not None:
            self.notes[f"{one} {symbol(op)} {other}: {inexact}"] = None
        if cast is not None:
            one, other = f"CAST({one} AS {cast})", f"CAST({other} AS {cast})"
        return f"{one}{self.ordered(op, left, types[0])} {symbol(op)} {other}"

    def _mixed(self, one: str, op: Op, other: str, types: tuple[pa.DataType | None, pa.DataType | None]) -> str:
        """Whole numbers against doubles, whichever is on the left."""
        if types[0] is not None and family_of(types[0]) == "integer":
            return mixed(one, op, other, types[0], self.dialect)
        assert types[1] is not None
        return mixed(other, op.flipped, one, types[1], self.dialect)

    def ordered(self, op: Op, side: tuple[str, str, str], data_type: pa.DataType | None) -> str:
        """What makes text ordered by code points, where the column is text and the operator orders."""
        if not op.is_order or not self.dialect.order:
            return ""
        if data_type is None:
            said = f"{self.cell(side[1], side[2])} has the database's own order; if it is text, say --type"
            self.notes[f"{said} {side[2]}=text"] = None
            return ""
        return self.dialect.order if family_of(data_type) == "text" else ""

    def condition(self, condition: Condition, table: str, row: str) -> str:
        """What a filter asks of one row."""
        match condition:
            case Comparison(column, op, Constant() as constant):
                data_type = self.type_of(table, column)
                if data_type is None and isinstance(constant.value, str):
                    self.ordered(op, (table, row, column), None)
                return with_constant(self.cell(row, column), op, constant, data_type, self.dialect)
            case Comparison(column, op, str(other)):
                return self.compared((table, row, column), op, (table, row, other))
            case IsNull(column, negated):
                return f"{self.cell(row, column)} IS {'NOT ' if negated else ''}NULL"
            case Matches(column, shape):
                return self.dialect.matches(self.cell(row, column), shape)
            case Length(column, op, size):
                return f"{self.dialect.length}({self.cell(row, column)}) {symbol(op)} {size}"
            case Not(operand):
                return f"NOT ({self.condition(operand, table, row)})"
            case All(operands):
                return " AND ".join(self._inner(operand, table, row) for operand in operands)
            case Any(operands):
                return " OR ".join(self._inner(operand, table, row) for operand in operands)
        raise NoSuchSqlError(f"there is no SQL for {condition!r} yet")

    def _inner(self, condition: Condition, table: str, row: str) -> str:
        text = self.condition(condition, table, row)
        return f"({text})" if isinstance(condition, All | Any) else text

    def asked(self, condition: Condition | None, table: str, *rows: str) -> list[str]:
        """The same of several rows, as parts of a conjunction."""
        if condition is None:
            return []
        return [self._inner(condition, table, row) for row in rows]

    def apart(self, table: str, *, once: bool) -> str:
        """That t and s are two rows; with `once` in one order only."""
        key = self.keys.get(table, ())
        if not key:
            if self.dialect.row is None:
                raise NoSuchSqlError(
                    f"{self.dialect.title} does not tell the rows of {table!r} apart: give their --key"
                )
            said = f"rows are told apart by {self.dialect.row}, which tables have and views do not"
            self.notes[f"{said}: give --key for those"] = None
            return f"t.{self.dialect.row} {'<' if once else '<>'} s.{self.dialect.row}"
        self.notes[f"rows are told apart by {', '.join(key)}, which must be unique and never NULL"] = None
        same = [f"{self.cell('t', column)} = {self.cell('s', column)}" for column in key]
        if not once:
            return f"NOT ({' AND '.join(same)})"
        steps = [
            " AND ".join([*same[:place], f"{self.cell('t', column)} < {self.cell('s', column)}"])
            for place, column in enumerate(key)
        ]
        return steps[0] if len(steps) == 1 else "(" + " OR ".join(f"({step})" for step in steps) + ")"

    # --- queries -------------------------------------------------------------------------------

    def listing(self, checks: Sequence[Check], columns: Sequence[str]) -> str:
        """The query that lists what breaks any of the checks of a rule, with its key and these columns."""
        table = checks[0].table
        wanted = tuple(dict.fromkeys((*self.keys.get(table, ()), *columns)))
        self.distinct(wanted)
        pairs = any(check.width == 2 for check in checks)
        return "\nUNION ALL\n".join(self._query(check, wanted, pairs) for check in checks)

    def distinct(self, columns: Iterable[str]) -> None:
        """Refuse columns that the database would take for one."""
        known: dict[str, str] = {}
        for column in () if self.dialect.names_by_case else columns:
            if known.setdefault(column.lower(), column) != column:
                raise NoSuchSqlError(
                    f"{self.dialect.title} takes {known[column.lower()]!r} and {column!r} for one name"
                )

    def _query(self, check: Check, columns: Sequence[str], pairs: bool) -> str:
        shown = []
        for row in ("t", "s") if pairs else ("t",):
            for column in columns:
                value = self.cell(row, column) if row == "t" or check.width == 2 else "NULL"
                shown.append(f"{value} AS {self.dialect.identifier(f'{row}.{column}')}" if pairs else value)
        if pairs and not any(self.keys.get(check.table, ())) and self.dialect.row is not None:
            rows = [f"{row}.{self.dialect.row}" if row == "t" or check.width == 2 else "NULL" for row in ("t", "s")]
            shown = [f"{rows[0]} AS t_row", f"{rows[1]} AS s_row", *shown]
        sources = [self.source(check.table, "t")]
        if check.width == 2:
            sources.append(self.source(check.table, "s"))
        joined = "\n  JOIN ".join(sources) + (" ON " if check.width == 2 else "\nWHERE ")
        return f"SELECT {', '.join(shown)}\nFROM {joined}" + "\n  AND ".join(self._terms(check))

    def _terms(self, check: Check) -> list[str]:
        """What must hold together of a row, or of two, to break the check."""
        table = check.table
        match check:
            case RowCheck():
                return self.asked(check.broken, table, "t")
            case ReferenceCheck():
                known = [f"{self.cell('t', column)} IS NOT NULL" for column in check.referring]
                other = check.ref_table
                same = (
                    self.compared((other, "s", ref), Op.EQ, (table, "t", column))
                    for column, ref in zip(check.referring, check.ref_columns, strict=True)
                )
                self.distinct(check.ref_columns)
                provider = f"SELECT 1 FROM {self.source(other, 's')} WHERE {' AND '.join(same)}"  # noqa: S608
                missing = f"NOT EXISTS ({provider})"
                return [*self.asked(check.member, table, "t"), *known, missing]
            case PairCheck():
                terms = [
                    self.compared((table, "t", term.left), term.op, (table, "s", term.right)) for term in check.terms
                ]
                members = [*self.asked(check.t_member, table, "t"), *self.asked(check.s_member, table, "s")]
                return [*terms, self.apart(table, once=check.symmetric), *members]
            case GroupCheck():
                return self._group(check)
        raise NoSuchSqlError("there is no SQL for this kind of rule yet")

    def _group(self, check: GroupCheck) -> list[str]:
        table, nulls = check.table, check.nulls_equal
        same, other = ("IS NOT DISTINCT FROM", "IS DISTINCT FROM") if nulls else ("=", "<>")
        agree = [f"{self.cell('t', column)} {same} {self.cell('s', column)}" for column in check.lhs]
        differ = []
        for column, asked in zip(check.rhs, check.asked, strict=True):
            parts = [
                f"{self.cell('t', column)} {other} {self.cell('s', column)}",
                *self.asked(asked, table, "t", "s"),
            ]
            differ.append(parts[0] if len(parts) == 1 else f"({' AND '.join(parts)})")
        if len(differ) > 1:
            differ = [f"({' OR '.join(differ)})"]
        return [*agree, self.apart(table, once=True), *differ, *self.asked(check.member, table, "t", "s")]
