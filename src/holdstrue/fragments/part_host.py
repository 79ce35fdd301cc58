"""Parts of sites as their driver sees them: versions and locks are here, rows are where tasks hold them open.

What versions tell is answered at once; what only rows tell is asked of all parts by one job.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.errors import HoldstrueError
from holdstrue.fragments.indexed_rows import ChangedKeys, keys_by_cfd, keys_table
from holdstrue.fragments.part_pool import POOL, Standing, newest
from holdstrue.fragments.parts import SitePart
from holdstrue.fragments.site_host import SiteHost
from holdstrue.fragments.site_state import SiteState
from holdstrue.shards.memory import pooled_bytes
from holdstrue.shards.runner import Runner
from holdstrue.shards.wire import SUMMARY, Message, failure, pack, raised, send
from holdstrue.state.manifest import RunFile
from holdstrue.state.runs import Runs

_MASK, _CHANGED, _JSON = "mask", "changed", "json"


@dataclass(frozen=True)
class PartQuestion:
    """A stage that asks open parts something and changes nothing."""

    parts: tuple[SitePart, ...]
    standing: tuple[Standing, ...]
    tasks: int
    verb: str
    args: Mapping[int, tuple[Any, ...]]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The numbers of tasks in, answers out."""
        numbers = {task for batch in batches for task in batch.column(0).to_pylist()}
        return send(self._answers(numbers))

    def _answers(self, tasks: set[int]) -> Iterator[Message]:
        for part in self.parts:
            if part.number % self.tasks not in tasks or part.number not in self.args:
                continue
            try:
                held = POOL.take(part, self.standing[part.number], remembering=self.verb == "found")
                kind, body = _written(held.work.ask(self.verb, *self.args[part.number]))
                POOL.put(part, held)
            except HoldstrueError as error:
                yield failure(error, 0)
                return
            yield Message(0, SUMMARY, part.number, kind, body)


def _written(answer: Any) -> tuple[str, pa.Buffer]:
    """An answer as its kind and its bytes."""
    match answer:
        case np.ndarray():
            return _MASK, pa.py_buffer(answer.astype(np.bool_).tobytes())
        case dict() if all(isinstance(value, ChangedKeys | pa.Table) for value in answer.values()):
            whole = {
                cfd: keys if isinstance(keys, ChangedKeys) else ChangedKeys(keys, keys.slice(0, 0))
                for cfd, keys in answer.items()
            }
            return _CHANGED, pack(keys_table(whole))
        case _:
            return _JSON, pa.py_buffer(json.dumps(answer).encode())


def _read(message: Message, verb: str) -> Any:
    match message.name:
        case kind if kind == _MASK:
            return np.frombuffer(message.payload, dtype=np.bool_).copy()
        case kind if kind == _CHANGED:
            found = keys_by_cfd(message.table())
            return {cfd: keys.added for cfd, keys in found.items()} if verb == "violations" else found
        case _:
            return json.loads(message.payload.to_pybytes())


class PartHost(SiteHost):
    """All parts of a relation."""

    def __init__(self, runner: Runner, parts: Sequence[SitePart], tasks: int) -> None:
        super().__init__({})
        self.runner, self.parts, self.tasks = runner, tuple(parts), tasks
        self._before: dict[int, str] = {}
        self.states: list[SiteState] = []
        try:
            for part in self.parts:
                self.states.append(SiteState.at(part.state, part.spec))
        except BaseException:
            self.close()
            raise

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the parts."""
        return tuple(part.spec.name for part in self.parts)

    def ask(self, site: str, verb: str, *args: Any) -> Any:
        """Ask one part."""
        return self.each(verb, {site: args})[site]

    def each(self, verb: str, args: Mapping[str, tuple[Any, ...]]) -> dict[str, Any]:
        """Ask parts: what their versions tell here, all else by one job."""
        numbers = {part.spec.name: part.number for part in self.parts}
        match verb:
            case "last":
                return {name: self.states[numbers[name]].last for name in args}
            case "count":
                return {name: self.states[numbers[name]].count for name in args}
            case "done":
                return {name: self._done(self.states[numbers[name]], own[0]) for name, own in args.items()}
        asked = {numbers[name]: own for name, own in args.items()}
        question = PartQuestion(self.parts, self.standing(), self.tasks, verb, asked)
        messages = [*self.runner.run([(None, question)], [], self.tasks)]
        raised(messages)
        names = self.sites
        return {names[message.route]: _read(message, verb) for message in messages}

    def _done(self, state: SiteState, batch: str) -> bool:
        return state.last is not None and (batch == state.last or state.seen(batch))

    def standing(self) -> tuple[Standing, ...]:
        """By part the version that it has."""
        return tuple(self._standing(number, state) for number, state in enumerate(self.states))

    def _standing(self, number: int, state: SiteState) -> Standing:
        journal = state.journal
        runs = journal.runs
        if not runs.log and not runs.base:
            return Standing()
        if runs.log:
            last, before = runs.log[-1], newest(Runs(runs.base, runs.log[:-1]))
        else:
            last, before = runs.base["last"], self._before.get(number, "")
        logged = len(runs.log), runs.log_rows
        return Standing(journal.version, newest(runs), before, last.to_dict(), state.last, logged)

    def bytes(self) -> int:
        """What all parts hold together, by the files of their states."""
        runs = [state.journal.runs for state in self.states]
        return sum(file.size for own in runs for file in (*own.base.values(), *own.log))

    def room(self) -> int:
        """What one worker may keep open; machines of workers whom nobody limits are taken to be like this one."""
        return pooled_bytes(self.runner.worker_bytes())

    def commit(self, part: int, batch: str, told: Mapping[str, Any]) -> None:
        """Make what a task has written for a part the next version of it."""
        state = self.states[part]
        before = newest(state.journal.runs)
        base = {name: RunFile.of(file) for name, file in told["base"].items()}
        state.commit(state.prepared(batch, RunFile.of(told["run"]), told["rows"], base))
        self._before[part] = before

    def close(self) -> None:
        """Let go of all states."""
        for state in self.states:
            state.close()
