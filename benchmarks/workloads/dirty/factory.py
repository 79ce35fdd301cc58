"""Readings of six machines every five minutes, by time, with derived columns."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from workloads.dirty.dice import Dice
from workloads.dirty.kinds import fixed, flipped, mapped, mojibake, negative, plus, times, years_off
from workloads.dirty.planting import Kinds, Planted, Planting

SCHEMA = pa.schema(
    [
        ("reading_time", pa.timestamp("ms")),
        ("machine", pa.string()),
        ("line", pa.string()),
        ("shift", pa.string()),
        ("operator", pa.string()),
        ("temp_c", pa.float64()),
        ("temp_f", pa.float64()),
        ("pressure_bar", pa.float64()),
        ("vibration", pa.float64()),
        ("rpm", pa.int64()),
        ("power_kw", pa.float64()),
        ("running", pa.bool_()),
        ("parts", pa.int64()),
        ("status_code", pa.int64()),
        ("status_text", pa.string()),
    ]
)
SHIFT_VARIANTS = {"early": ["Early", "ealry"], "late": ["l", "late "], "night": ["nigth", "NIGHT"]}
MACHINE_VARIANTS = {
    "M01": ["M1", "MO1"],
    "M02": ["M2", "m02"],
    "M03": ["M3"],
    "M04": ["M-04"],
    "M05": ["M5"],
    "P-11": ["P11"],
}
STATUSES = {
    0: "OFF",
    1: "RUNNING",
    2: "WARM-UP",
    3: "IDLE",
    17: "TOOL CHANGE",
    42: "EMERGENCY STOP",
    51: "COOLANT LOW",
}
CREWS = {"early": ["A. Weber", "J. Kim"], "late": ["S. Novák", "T. Okafor"], "night": ["L. Brandt", "M. Sørensen"]}


@dataclass
class Machine:
    """A machine as it should run, and how it does."""

    name: str
    line: str
    hot: int
    speed: int
    bar: float
    power: int
    mode: int = 1
    left: int = 40
    temperature: float = 40.0
    parts: int = 0
    shift: str = ""

    @property
    def running(self) -> bool:
        """Whether it turns."""
        return self.mode in (1, 2)

    def step(self, dice: Dice, shift: str) -> None:
        """Five minutes more."""
        self.left -= 1
        if self.left <= 0:
            self._change(dice)
        target = self.hot if self.running else 40 if self.mode else 23
        self.temperature += (target - self.temperature) * 0.2 + dice.normal(0, 0.35)
        if self.shift != shift:
            self.shift, self.parts = shift, 0
        if self.mode == 1:
            self.parts += dice.whole(3, 6) if self.line != "Press" else dice.whole(0, 1)

    def _change(self, dice: Dice) -> None:
        if self.mode in (0, 42, 51):
            self.mode, self.left = 2, dice.whole(2, 4)
        elif self.mode == 1:
            self.mode = dice.weighted([0, 3, 17, 42, 51], [3, 6, 5, 0.2, 0.4])
            self.left = dice.whole(30, 90) if self.mode == 0 else dice.whole(2, 9)
        else:
            self.mode, self.left = 1, dice.whole(30, 140)


def factory(seed: int) -> Planted:
    """Readings of six machines every five minutes, by time, with derived columns.

    Honest oddities: a machine that runs hotter, stops with zeros for speed and power, start-up
    peaks, a sensor outage of some hours with missing values, heavy-tailed vibration, a gap in
    the log, part counters that begin again with each shift, rare status codes, a stand-in
    operator, values that stay the same for long while a machine is off.
    """
    dice = Dice(seed, 106)
    errors = Planting(dice, SCHEMA, _rows(dice))
    return errors.plant(dice.real(0.02, 0.05), _kinds(errors))


def _rows(dice: Dice) -> list[tuple[Any, ...]]:
    machines = [
        Machine("M01", "Line A", 61, 2400, 7.2, 11), Machine("M02", "Line A", 63, 2400, 7.0, 14),
        Machine("M03", "Line A", 60, 2380, 7.1, 17), Machine("M04", "Line B", 58, 1800, 5.4, 20),
        Machine("M05", "Line B", 57, 1810, 5.5, 23), Machine("P-11", "Press", 84, 320, 110.0, 26),
    ]  # fmt: skip
    silent, since = dice.pick(machines[:5]), dice.whole(200, 700)
    moment = dt.datetime(2023, 3, 6, 5, 0)
    rows = []
    for step in range(980):
        moment += dt.timedelta(minutes=5)
        if step == 430:
            moment += dt.timedelta(hours=9)  # honest: the logger was down
        shift = "early" if 6 <= moment.hour < 14 else "late" if 14 <= moment.hour < 22 else "night"
        for place, machine in enumerate(machines):
            machine.step(dice, shift)
            read = _readings(dice, machine, silent=machine is silent and since <= step < since + 50)
            who = CREWS[shift][0 if machine.line == "Line A" else 1]
            if moment.day == 8 and shift == "late":
                who = "H. Stand-in"
            at = moment + dt.timedelta(milliseconds=37 * place + dice.whole(0, 20))
            state = machine.running, machine.parts, machine.mode, STATUSES[machine.mode]
            rows.append((at, machine.name, machine.line, shift, who, *read, *state))
    return rows


def _readings(
    dice: Dice, machine: Machine, silent: bool
) -> tuple[float | None, float | None, float | None, float, int, float]:
    """Degrees in both units, pressure, vibration, speed and power; a silent sensor has neither of the first three."""
    rpm = int(dice.normal(machine.speed, machine.speed * 0.008)) if machine.running else 0
    power = round(rpm / machine.speed * machine.power * dice.real(0.95, 1.05), 2) if machine.running else 0.0
    if machine.mode == 2:
        power = round(power * dice.real(1.6, 2.4), 2)
    vibration = round(dice.lognormal(0.3 if machine.running else -2.5, 0.45), 3)
    pressure = round(dice.normal(machine.bar, machine.bar * 0.012), 2) if machine.mode else 0.0
    if silent:
        return None, None, None, vibration, rpm, power
    celsius = round(machine.temperature, 1)
    return celsius, round(celsius * 9 / 5 + 32, 2), pressure, vibration, rpm, power


def _stuck(errors: Planting, row: int) -> int:
    """The sensor repeats its last value for some readings of the same machine."""
    degrees, machines = errors.true["temp_c"], errors.true["machine"]
    if degrees[row] is None:
        return 0
    after = range(row + 1, min(errors.rows, row + 60))
    same = (at for at in after if machines[at] == machines[row] and degrees[at] is not None)
    return sum(errors.put(at, "temp_c", degrees[row]) for at in same)


def _kinds(errors: Planting) -> Kinds:
    true = errors.true
    return [
        (2, errors.cell("temp_c", fixed(-999.0, 850.0, 0.0, -273.1))),
        (2, errors.rowwise("temp_c", lambda row: true["temp_f"][row])),
        (1.5, errors.cell("temp_c", lambda dice, value: round(value + dice.pick([-1, 1]) * dice.real(1.5, 6), 1))),
        (1.5, lambda row: _stuck(errors, row)),
        (2, errors.cell("temp_f", times(10, 0.1))),
        (2, errors.cell("pressure_bar", times(10, 100, 14.5), lambda row: true["pressure_bar"][row] > 0)),
        (1, errors.cell("pressure_bar", negative)),
        (1.5, errors.run_of("vibration", 6, times(1000))),
        (1, errors.cell("vibration", negative)),
        (1.5, errors.cell("rpm", times(60, 0.1))),
        (1, errors.cell("rpm", fixed(0, 65535, 32767))),
        (2, errors.cell("power_kw", times(1000))),
        (1, errors.cell("power_kw", negative)),
        (2, errors.cell("running", flipped)),
        (1.5, errors.cell("parts", plus(-40, 60, 100, 1000))),
        (1, errors.cell("reading_time", lambda dice, value: value.replace(year=1970, month=1, day=1))),
        (1, errors.cell("reading_time", lambda dice, value: value + dt.timedelta(hours=dice.pick([-12, -1, 1, 12])))),
        (0.7, errors.cell("reading_time", years_off(1, 10, 80))),
        (1.5, errors.cell("shift", fixed(*CREWS))),
        (1, errors.cell("shift", mapped(SHIFT_VARIANTS))),
        (1, errors.other("operator")),
        (1, errors.cell("operator", mojibake)),
        (1.5, errors.cell("machine", mapped(MACHINE_VARIANTS))),
        (1, errors.other("line")),
        (1.5, errors.other("status_text")),
        (1, errors.cell("status_code", fixed(-1, 99, 3, 17))),
        (1.5, errors.blank("rpm")),
        (1, errors.blank("temp_f")),
    ]
