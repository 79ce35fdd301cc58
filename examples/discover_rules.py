"""Find the rules that hold in a table, adopt the best, and see which of them a batch ends."""

import pyarrow as pa

import holdstrue

flights = pa.table(
    {
        "flight": range(60),
        "tail": [f"N{i % 6}" for i in range(60)],
        "model": [f"M{i % 6 // 2}" for i in range(60)],
        "seats": [100 + 20 * (i % 6 // 2) for i in range(60)],
    }
)
found = holdstrue.discover(flights, kinds=("fd", "key"), key="flight")
for rule in found.telling[:5]:
    print(f"{rule.score:.2f}  {rule.text}")
assert "tail -> model" in [rule.text for rule in found]

changes = found.apply(pa.table({"flight": [60], "tail": ["N0"], "model": ["M9"], "seats": [100]}))
for ended in changes.died:
    print(f"ended: {ended.text}, by {ended.rows}")
assert "tail -> model" in [ended.text for ended in changes.died]
