"""Relations split over sites: the experiments of paper 000 (Exp-1 to Exp-10) on a joined TPC-H-like relation.

Every figure comes from a process of its own; the violations of the incremental and the batch algorithms are
compared before a figure counts. `elapsed` is the CPU time when all sites work at once: in every round that of the
slowest site. |D| grows over `--sizes`; other experiments use the second size (loading it takes most of their time).
"""

from __future__ import annotations

import tempfile
from typing import Any

from jobs import Answer, Job
from scenarios.setting import Outcome, Setting, Table, attempt, ratio

SITES, CFDS = 10, 50
SECONDS = 0.7
"""That the solver has for a program of a random workload."""
SHARE = 100
"""Changes are a hundredth of |D| unless they are what varies."""

_HEAD = (
    "inc elapsed ms", "inc CPU ms", "inc MB", "bytes a change",
    "bat elapsed ms", "bat CPU ms", "bat MB", "bytes", "elapsed",
)  # fmt: skip


def run(setting: Setting) -> Outcome:
    """All experiments for both kinds of fragments."""
    outcome = Outcome()
    bench = _Bench(setting, outcome)
    bench.plans()
    middle = setting.sizes[min(1, len(setting.sizes) - 1)]
    fixed = max(setting.sizes[0] // SHARE, 1)
    for shape in ("vertical", "horizontal"):
        first = 1 if shape == "vertical" else 6
        table = bench.table(f"Exp-{first} |D|, {shape}, {fixed:,} changes", "|D|")
        for rows in setting.sizes:
            bench.compare(table, rows, shape, rows, fixed)
        table = bench.table(f"Exp-{first + 1} |changes|, {shape}, |D| = {middle:,}", "|changes|")
        for part in (1, 4) if setting.quick else (1, 10, 40, 80, 160):
            count = max(int(middle * part / SHARE), 1)
            bench.compare(table, count, shape, middle, count)
        table = bench.table(f"Exp-{first + 2} |CFDs|, {shape}, |D| = {middle:,}", "CFDs")
        for cfds in (25, 50) if setting.quick else (25, 50, 75, 100, 125):
            bench.compare(table, cfds, shape, middle, middle // SHARE, cfds=cfds)
        bench.scaleup(shape, f"Exp-{first + 3}", middle)
        bench.against_insertions(shape, setting.sizes[0])
    bench.loads(setting.sizes[-1])
    bench.central(setting.sizes[0])
    return outcome


class _Bench:
    def __init__(self, setting: Setting, outcome: Outcome) -> None:
        self._setting, self._outcome = setting, outcome

    def table(self, title: str, varies: str) -> Table:
        table = Table(f"{title} (ratios: bat to inc)", (varies, *_HEAD))
        self._outcome.tables.append(table)
        return table

    def compare(self, table: Table, label: int, shape: str, rows: int, count: int, cfds: int = CFDS) -> None:
        """One line: inc against bat."""
        options = {"shape": shape, "rows": rows, "changes": count, "cfds": cfds, "sites": SITES}
        inc, bat = self._measure("inc", options), self._measure("bat", options)
        if not self._agree(options, inc, bat):
            table.rows.append((label, *(("-",) * 8), inc.failure or bat.failure or "WRONG"))
            return
        i, b = inc.figures, bat.figures
        cells = [i["elapsed_ms"], i["cpu_ms"], i["bytes"] / 1e6, i["bytes"] / count]
        cells += [b["elapsed_ms"], b["cpu_ms"], b["bytes"] / 1e6]
        table.rows.append((label, *cells, ratio(b["bytes"], i["bytes"]), ratio(b["elapsed_ms"], i["elapsed_ms"])))

    def _measure(self, way: str, options: dict[str, Any]) -> Answer:
        job = Job("fragments", way, (options["shape"],), "", options={"way": way, **options})
        return attempt(job, self._setting.timeout)

    def _agree(self, options: dict[str, Any], *answers: Answer) -> bool:
        failed = [a.failure for a in answers if a.failure]
        agrees = not failed and all(a.figures["answer"] == answers[0].figures["answer"] for a in answers)
        figures = [{k: v for k, v in a.figures.items() if k != "answer"} for a in answers]
        record = {**options, "figures": figures, "failures": failed}
        self._outcome.records.append(record if failed else record | {"agrees": agrees})
        return agrees

    def plans(self) -> None:
        """Exp-5: ids for a changed row without optimisation, by optVer and by the integer program."""
        head = ("CFDs", "chains", "optVer", "saved %", "integer", "saved %", "bits", "bytes", "at least")
        table = Table(
            "Exp-5 ids shipped for a changed row, vertical, 10 sites (published: 55.5% and 72.1% saved)", head
        )
        for cfds in (25, 50, 75, 100, 125):
            job = Job("fragments", "plan", ("vertical",), "", options={"way": "plan", "cfds": cfds, "sites": SITES})
            answer = attempt(job, self._setting.timeout)
            if answer.failure:
                table.rows.append((cfds, answer.failure, *(("-",) * 7)))
                continue
            f = answer.figures
            saved = [100 * (f["chains"] - f[way]) / f["chains"] for way in ("optVer", "integer")]
            cells = (f["chains"], f["optVer"], saved[0], f["integer"], saved[1])
            table.rows.append((cfds, *cells, f["bits"], f["integer_bytes"], f["bound"]))
            self._outcome.records.append({"cfds": cfds, **f})
        self._outcome.tables.append(table)
        self._random_plans(20 if self._setting.quick else 200)

    def _random_plans(self, count: int) -> None:
        """The integer program beside one home for all CFDs and optVer, on random rules."""
        head = ("CFDs", "workloads", "one home", "optVer", "integer", "at least", "optimal", "worse than either")
        table = Table(f"{count} random workloads over 10 sites and 30 columns, mean expected bytes a changed row", head)
        for size in (5, 10, 20, 40):
            options = {"way": "random plans", "count": count // 4, "size": size, "seconds": SECONDS}
            answer = attempt(Job("fragments", "plan", ("random",), "", options=options), self._setting.timeout)
            if answer.failure:
                table.rows.append((size, answer.failure, *(("-",) * 6)))
                continue
            some = answer.figures["costs"]
            means = [sum(costs[i] for costs in some) / len(some) for i in range(4)]
            ended = sum(costs[3] >= costs[2] - 1e-3 for costs in some)
            worse = sum(costs[2] > costs[0] + 1e-6 or costs[2] > costs[1] + 1e-6 for costs in some)
            table.rows.append((size, len(some), *means, ended, worse))
            self._outcome.records.append({"random": size, "costs": some})
        self._outcome.tables.append(table)

    def scaleup(self, shape: str, name: str, most: int) -> None:
        """Exp-4 and 9: sites, |D| and changes grow together; 1 is ideal."""
        head = ("sites", "|D|", "inc elapsed ms", "scale-up inc", "bat elapsed ms", "scale-up bat")
        table = Table(f"{name} scale-up, {shape}", head)
        first: tuple[float, float] | None = None
        for sites in (2, 10) if self._setting.quick else (2, 4, 6, 8, 10):
            rows = most * sites // 10
            options = {"shape": shape, "rows": rows, "changes": rows // SHARE, "cfds": CFDS, "sites": sites}
            inc, bat = self._measure("inc", options), self._measure("bat", options)
            if not self._agree(options, inc, bat):
                table.rows.append((sites, rows, inc.failure or bat.failure or "WRONG", "-", "-", "-"))
                continue
            times = (inc.figures["elapsed_ms"], bat.figures["elapsed_ms"])
            first = first or times
            table.rows.append((sites, rows, times[0], first[0] / times[0], times[1], first[1] / times[1]))
        self._outcome.tables.append(table)

    def against_insertions(self, shape: str, base: int) -> None:
        """Exp-10: against everything from scratch by our own incremental insertions (ibatVer, ibatHor)."""
        head = ("|changes| / |D|", "inc elapsed ms", "ibat elapsed ms", "ratio")
        table = Table(f"Exp-10 against incremental insertion of everything, {shape}, |D| = {base:,}", head)
        for part in (0.3,) if self._setting.quick else (0.1, 0.4, 0.8, 1.2, 1.6):
            options = {"shape": shape, "rows": base, "changes": int(base * part), "cfds": CFDS, "sites": SITES}
            inc, whole = self._measure("inc", options), self._measure("ibat", options)
            if not self._agree(options, inc, whole):
                table.rows.append((part, inc.failure or whole.failure or "WRONG", "-", "-"))
                continue
            times = (inc.figures["elapsed_ms"], whole.figures["elapsed_ms"])
            table.rows.append((part, *times, times[1] / times[0]))
        self._outcome.tables.append(table)

    def loads(self, rows: int) -> None:
        """A first load from a Parquet file a site, all sites in one process; both kinds of fragments find the same."""
        head = ("fragments", "CPU s", "peak MB", "MB after", "index bytes a row", "rows that violate", "equal")
        table = Table(f"first load of {rows:,} rows, {CFDS} CFDs, {SITES} sites", head)
        answers: list[Any] = []
        for shape in ("vertical", "horizontal"):
            with tempfile.TemporaryDirectory(prefix="holdstrue-load-") as folder:
                options = {"shape": shape, "rows": rows, "cfds": CFDS, "sites": SITES, "folder": folder}
                made, found = self._measure("write", options), self._measure("load", options)
            failed = made.failure or found.failure
            if failed:
                table.rows.append((shape, failed, *(("-",) * 5)))
                continue
            f = found.figures
            answers.append(f["answer"])
            equal = answers[0] == answers[-1]
            cells = (f["cpu_ms"] / 1e3, f["peak_rss_mb"], f["rss_mb"], f["index_bytes"] / rows)
            table.rows.append((shape, *cells, sum(f["answer"].values()), str(equal)))
            self._outcome.records.append({"load": shape, "rows": rows, "agrees": equal, **f})
        self._outcome.tables.append(table)

    def central(self, rows: int) -> None:
        """The violations are those of the engine that has the whole table in one place."""
        job = Job("fragments", "central", ("one place",), "", options={"way": "central", "rows": rows, "cfds": CFDS})
        one = attempt(job, self._setting.timeout)
        options = {"shape": "vertical", "rows": rows, "changes": rows // SHARE, "cfds": CFDS, "sites": SITES}
        inc = self._measure("inc", options)
        failed = one.failure or inc.failure
        counts = {} if failed else {rule: found[0] for rule, found in inc.figures["answer"].items()}
        agrees = not failed and counts == one.figures["answer"]
        table = Table("the same violations as in one place", ("|D|", "rules violated", "rows, all rules", "equal"))
        table.rows.append((rows, len(counts), sum(counts.values()), failed or str(agrees)))
        self._outcome.tables.append(table)
        self._outcome.records.append({"central": rows, "agrees": agrees})
