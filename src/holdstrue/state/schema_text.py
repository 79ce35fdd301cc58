"""The columns of a table as text, for entries of the log and what versions say."""

from __future__ import annotations

import base64

import pyarrow as pa


def schema_text(schema: pa.Schema) -> str:
    """Columns and types as text."""
    return base64.b64encode(schema.serialize().to_pybytes()).decode()


def schema_of(text: str) -> pa.Schema:
    """Back from `schema_text`; a ValueError where it cannot be."""
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))
        _ = schema.names  # which must be text
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"the columns of a table cannot be read: {error}") from error
    return schema
