"""The shapes of what is asked and answered, as JSON Schema: what the OpenAPI document says of each."""

from __future__ import annotations

from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
ANY: Schema = {}
COUNTS: Schema = {"type": "object", "additionalProperties": NUMBER}


def record(**properties: Schema) -> Schema:
    """An object with exactly these properties; those whose name ends in an underscore may be missing."""
    required = [name for name in properties if not name.endswith("_")]
    named = {name.removesuffix("_"): schema for name, schema in properties.items()}
    return {"type": "object", "properties": named, "required": required, "additionalProperties": False}


def listing(schema: Schema) -> Schema:
    """A list of such."""
    return {"type": "array", "items": schema}


def maybe(schema: Schema) -> Schema:
    """Such, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def named(schema: Schema) -> Schema:
    """An object whose properties are all such."""
    return {"type": "object", "additionalProperties": schema}


def of(name: str) -> Schema:
    """A shape by its name in `SHAPES`."""
    return {"$ref": f"#/components/schemas/{name}"}


_SHOWN = named(maybe(TEXT))
_VIOLATION = {"rule": TEXT, "t": ANY, "s_": ANY}
_RULE = {
    "name": TEXT,
    "kind": TEXT,
    "text": TEXT,
    "severity": {"enum": ["error", "warn"]},
    "rows": NUMBER,
    "pairs": NUMBER,
    "groups": NUMBER,
    "status": {"enum": ["ok", "violated", "tolerated", "accepted"]},
    "open": NUMBER,
}
_STATE = {
    "name": TEXT,
    "place": TEXT,
    "standing": TEXT,
    "message": TEXT,
    "hint": TEXT,
    "version": maybe(NUMBER),
    "time": maybe(TEXT),
    "rows": NUMBER,
    "open": NUMBER,
    "accepted": NUMBER,
    "batches": NUMBER,
    "last_batch": maybe(TEXT),
}
_MOMENT = record(version=NUMBER, time=maybe(TEXT))

SHAPES: dict[str, Schema] = {
    "Error": record(error=record(message=TEXT, hint=TEXT)),
    "State": record(**_STATE),
    "States": record(states=listing(of("State"))),
    "StateDetail": record(
        **_STATE,
        tables=named(record(rows=NUMBER, key=listing(TEXT), columns=listing(TEXT))),
        rules=listing(record(**_RULE, measured_=TEXT, accepted_=NUMBER, columns=listing(TEXT))),
    ),
    "Overview": {
        "type": "object",
        "required": ["title", "made", "version", "tables", "open", "rules", "columns", "worst", "history", "plan"],
        "properties": {
            "title": TEXT,
            "made": TEXT,
            "version": NUMBER,
            "time": maybe(TEXT),
            "tables": COUNTS,
            "open": NUMBER,
            "rules": listing({"type": "object", "required": ["name", "open", "of", "list", "of_list", "listed"]}),
            "columns": listing(record(table=TEXT, column=TEXT, rows=NUMBER, by_rule=COUNTS)),
            "worst": listing(record(table=TEXT, key=TEXT, total=NUMBER, by_rule=COUNTS)),
            "history": maybe({"type": "object", "required": ["batches", "each", "names", "times", "rules"]}),
            "plan": listing(TEXT),
            "memory": listing(record(what=TEXT, bytes=NUMBER)),
            "accepted": listing({"type": "object"}),
            "discovered": maybe({"type": "object"}),
            "suspects": maybe({"type": "object"}),
            "notes": listing(TEXT),
        },
    },
    "Violation": record(
        **_VIOLATION,
        severity=TEXT,
        names=listing(TEXT),
        rows=listing(_SHOWN),
        marked=listing(TEXT),
        accepted_=TRUTH,
    ),
    "Violations": record(
        version=NUMBER,
        time=maybe(TEXT),
        total=NUMBER,
        offset=NUMBER,
        violations=listing(of("Violation")),
        truncated=TRUTH,
    ),
    "Row": record(
        version=NUMBER,
        table=TEXT,
        key=TEXT,
        values=_SHOWN,
        by_rule=COUNTS,
        violations=listing(of("Violation")),
        truncated=TRUTH,
    ),
    "RowHistory": record(
        key=TEXT,
        table=TEXT,
        steps=listing(
            record(
                version=NUMBER,
                time=maybe(TEXT),
                batch=maybe(TEXT),
                row={"enum": ["inserted", "updated", "deleted", "unchanged"]},
                columns=listing(TEXT),
                added=COUNTS,
                removed=COUNTS,
            )
        ),
        looked_back_to=NUMBER,
        unknown=TEXT,
    ),
    "Versions": record(versions=listing(_MOMENT), kept=NUMBER, truncated=TRUTH),
    "History": record(
        batches=listing(
            record(batch=TEXT, time=TEXT, rule=TEXT, added=NUMBER, removed=NUMBER, open=NUMBER),
        ),
        total=NUMBER,
        truncated=TRUTH,
    ),
    "Comparison": {
        **record(
            to=_MOMENT,
            rows=named(listing(NUMBER)),
            rules=listing(
                record(name=TEXT, before=NUMBER, after=NUMBER, added=maybe(NUMBER), removed=maybe(NUMBER)),
            ),
            added=listing(record(**_VIOLATION)),
            removed=listing(record(**_VIOLATION)),
            truncated=TRUTH,
            **{"from": _MOMENT},
        ),
    },
    "RowToTry": record(row={"type": "object"}, op_={"enum": ["upsert", "insert", "update", "delete"]}, table_=TEXT),
    "TriedRow": record(
        version=NUMBER,
        added=listing(record(**_VIOLATION)),
        removed=listing(record(**_VIOLATION)),
        counts=named(record(added=NUMBER, removed=NUMBER, open=NUMBER)),
        truncated=TRUTH,
        notes=listing(TEXT),
    ),
    "RuleToTry": record(rule=TEXT, table_=TEXT),
    "TriedRule": record(
        version=NUMBER,
        **_RULE,
        measured_=TEXT,
        table=TEXT,
        of=NUMBER,
        violations=listing(of("Violation")),
        truncated=TRUTH,
        notes=listing(TEXT),
    ),
    "Health": record(status={"enum": ["ok"]}, states=COUNTS),
}
