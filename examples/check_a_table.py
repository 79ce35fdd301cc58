"""Check a table once, and see the rows and groups that break a rule."""

import pyarrow as pa

import holdstrue

people = pa.table(
    {
        "id": [1, 2, 3, 4, 5],
        "zip": ["01907", "01907", "10115", "10115", "20095"],
        "city": ["Swampscott", "Lynn", "Berlin", "Berlin", "Hamburg"],
        "salary": [50_000, 60_000, 40_000, 45_000, 30_000],
        "tax": [9_000, 8_500, 6_000, 7_000, 4_000],
    }
)
rules = ["zip -> city", "not(t.salary > s.salary and t.tax < s.tax)", "key(id)"]

report = holdstrue.check(people, rules, key="id")
for result in report.results:
    print(f"{result.rule.name}: {result.counts.open} violations")
for violation in report:
    print(f"  {violation.rule}: {violation.t} and {violation.s}")
[group] = report.groups("zip -> city")
print(f"  zip {group.values['zip']}: {[side['city'] for side in group.right]}")
assert not report.ok
