"""Keep the violations of a table current while it changes, in a state directory that survives the process."""

import tempfile
from pathlib import Path

import pyarrow as pa

from holdstrue import Monitor

state = Path(tempfile.mkdtemp()) / "state"
orders = pa.table({"id": [1, 2, 3], "customer": ["a", "a", "b"], "city": ["Bonn", "Bonn", "Kiel"]})

with Monitor.create(state, "customer -> city", key="id", data=orders) as monitor:
    print(f"{monitor.rows} at the start, {monitor.counts()['customer -> city'].open} open")

changes = pa.table(
    {
        "op": ["insert", "update", "delete"],
        "id": [4, 3, 1],
        "customer": ["b", "b", None],
        "city": ["Ulm", "Kiel", None],
    }
)
with Monitor.open(state) as monitor:
    delta = monitor.apply(changes, batch_id="monday")
    print(f"{delta.batch}: {[(v.t, v.s) for v in delta.added]} came, {len(delta.removed)} went")
    assert monitor.apply(changes, batch_id="monday").duplicate, "a batch that was applied changes nothing"
    assert [(v.t, v.s) for v in monitor.violations()] == [(3, 4)]
