"""One batch at all parts of all sites, as stages that hand each other messages: a job where they run on a cluster.

The first stage nets the changes of a part and begins; each of the following takes in what came and does the next round;
the last writes the batch down and says counts. A part goes on in the worker that holds it from the stage before, and is
otherwise brought there again from its state and from what it was told, which it sends on to itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.errors import HoldstrueError
from holdstrue.fragments.channel import SiteMessage
from holdstrue.fragments.indexed_rows import keys_table
from holdstrue.fragments.netting import net_of_part
from holdstrue.fragments.part_pool import POOL, OpenPart, PartState, Standing
from holdstrue.fragments.parts import SitePart
from holdstrue.fragments.site_work import SiteWork
from holdstrue.shards.wire import ERROR, OP, ROWS, SEQ, SUMMARY, Message, failure, pack, receive, say, send
from holdstrue.state.files import StateFiles
from holdstrue.state.manifest import RunFile

START, MAIL, PAST, BEGUN, STORED, KEYS = range(10, 16)
"""Kinds of messages: a task has something to do; from part to part; the same as told before; the rows that a part began
with; the file where they are; keys of rows that a check found."""

FRAGMENT, NOW = ":fragment", ":now"
"""Columns beside the rows': the fragment that a changed row belongs to, and whether it is there after the batch."""

STORED_FROM = 8 << 20
"""Rows of more bytes are written beside the state for the stages that follow, instead of being sent through all."""

Call = tuple[str, tuple[Any, ...]]

LOADS, APPLIES, CHECKS = "load", "apply", "check"
CHECK = "check"
"""What a check is called, and under which it is kept open."""


@dataclass(frozen=True)
class PartJob:
    """What every stage of a batch knows."""

    parts: tuple[SitePart, ...]
    standing: tuple[Standing, ...]
    tasks: int
    batch: str
    attempt: str
    """Tells two attempts to apply one batch apart."""
    does: str
    key: tuple[str, ...]
    rounds: tuple[tuple[Call, ...], ...]
    """By stage what every part is asked."""
    whole: bool = False
    """Whether one task does all rounds for all parts (`WholeBatch`)."""

    def task_of(self, part: int) -> int:
        """The task that works for a part."""
        return part % self.tasks

    @cached_property
    def by_name(self) -> dict[str, SitePart]:
        """Parts by their names."""
        return {part.spec.name: part for part in self.parts}

    @property
    def purpose(self) -> str:
        """Under which the work is kept open: a check is done beside what is held."""
        return CHECK if self.does == CHECKS else ""


def rounds_of(levels: int, *, agree: bool) -> tuple[tuple[Call, ...], ...]:
    """What parts are asked, stage by stage: messages go out at the end of each and come in at the start of the next.

    >>> [[verb for verb, _ in calls] for calls in rounds_of(1, agree=False)]
    [['ship'], ['settle', 'finish']]
    >>> len(rounds_of(0, agree=True)), len(rounds_of(2, agree=True))
    (5, 7)
    """
    shipping: list[tuple[Call, ...]] = [(("ship", (level,)),) for level in range(levels)]
    if not agree:
        return (*shipping, (("settle", ()), ("finish", ())))
    asking: list[tuple[Call, ...]] = [((verb, ()),) for verb in ("reply", "verdict", "conclude", "finish")]
    return (*shipping, (("settle", ()), ("announce", ())), *asking)


@dataclass
class PartMail:
    """What a part was told in this batch."""

    rows: list[pa.Table] = field(default_factory=list)
    begun: pa.Table | None = None
    carried: list[Message] = field(default_factory=list)
    """What it sends on to itself."""
    past: dict[int, list[SiteMessage]] = field(default_factory=dict)
    """By stage what came before it."""


@dataclass(frozen=True)
class PartStage:
    """A stage: each task asks the parts that it works for."""

    job: PartJob
    at: int

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Messages in, messages out."""
        return send(self._messages([*receive(batches)]))

    def _messages(self, came: list[Message]) -> Iterator[Message]:
        yield from (message for message in came if message.kind in (SUMMARY, ERROR, KEYS))
        if any(message.kind == ERROR for message in came) or not came:
            return
        told = self._told(came)
        if self.at < len(self.job.rounds) - 1:
            yield Message(came[0].task, START, -1, "", pa.py_buffer(b""))  # a task without messages would not run
        for part in self.job.parts:
            if self.job.task_of(part.number) != came[0].task:
                continue
            try:
                yield from self._worked(part, told.get(part.number) or PartMail())
            except HoldstrueError as error:
                yield failure(error, self.at)
                return

    def _told(self, came: list[Message]) -> dict[int, PartMail]:
        found: dict[int, PartMail] = {}
        for message in came:
            own = found.setdefault(message.route, PartMail())
            match message.kind:
                case kind if kind == ROWS:
                    own.rows.append(message.table())
                case kind if kind == BEGUN:
                    own.begun = message.table()
                    own.carried.append(message)
                case kind if kind == STORED:
                    own.carried.append(message)
                case kind if kind == MAIL:
                    own.past.setdefault(self.at, []).append(read_mail(message.payload))
                case kind if kind == PAST:
                    own.past.setdefault(int(message.name), []).append(read_mail(message.payload))
                    own.carried.append(message)
                case _:
                    pass
        return found

    def _worked(self, part: SitePart, told: PartMail) -> Iterator[Message]:
        job, last = self.job, self.at == len(self.job.rounds) - 1
        held = None if self.at == 0 else POOL.resume(part, job.purpose, (job.attempt, self.at - 1))
        carried = told.carried
        if held is None:
            held, begun = self._begun(part, told)
            carried = [*carried, *begun]
            for stage in range(self.at):
                self._asked(held.work, told.past.get(stage, ()), stage)
        answers = self._asked(held.work, told.past.get(self.at, ()), self.at)
        held.progress = job.attempt, self.at
        if last:
            yield self._summary(part, held, answers[-1])
            if job.does == CHECKS:
                yield Message(0, KEYS, part.number, "", pack(keys_table(answers[-1])))
                return
        else:
            yield from carried
            here = job.task_of(part.number)
            for mail in told.past.get(self.at, ()):
                yield Message(here, PAST, part.number, str(self.at), write_mail(mail))
            for mail in answers[-1]:
                target = job.by_name[mail.target]
                yield Message(job.task_of(target.number), MAIL, target.number, "", write_mail(mail))
        POOL.put(part, held, job.purpose)

    def _asked(self, work: SiteWork, mail: Sequence[SiteMessage], stage: int) -> list[Any]:
        for got in sorted(mail, key=lambda one: (one.source, one.number)):
            work.ask("receive", got)
        return [work.ask(verb, *args) for verb, args in self.job.rounds[stage]]

    # --- the first stage --------------------------------------------------------------------------

    def _begun(self, part: SitePart, told: PartMail) -> tuple[OpenPart, list[Message]]:
        """A part that has begun its batch, and what must be known to begin it again elsewhere."""
        job, standing = self.job, self.job.standing[part.number]
        held = POOL.take(part, standing, remembering=standing.batch == job.batch)
        work, keep = held.work, list[Message]()
        if job.does == CHECKS:
            return self._check(part, held, told)
        if self.at == 0:
            rows, note = self._netted(part, work, told)
            keep = [*self._kept(part, rows), *note]
        else:
            rows = self._rows_again(part, told)
        if job.does == LOADS:
            work.read_from(lambda: rows)
            work.ask("begin", job.batch)
        else:
            now = rows.column(NOW).combine_chunks().to_numpy(zero_copy_only=False)
            work.ask("begin", job.batch, rows.drop_columns([NOW]), now)
        work.ask("align")
        held.state.expect(rows.num_rows)
        return held, keep

    def _check(self, part: SitePart, held: OpenPart, told: PartMail) -> tuple[OpenPart, list[Message]]:
        """A part beside the one that is held, with its rows."""
        rows, keep = held.work.current_rows(), list[Message]()
        if rows is None:  # nothing is loaded: those of the source
            rows = self._joined(part, told) if self.at == 0 else self._rows_again(part, told)
            keep = [*self._kept(part, rows)] if self.at == 0 else []
        POOL.put(part, held)
        beside = SiteWork(part.spec, lambda: rows)
        beside.ask("begin", CHECK)
        beside.ask("align")
        return OpenPart(beside, PartState(part, Standing()), "", part.token), keep

    def _joined(self, part: SitePart, told: PartMail) -> pa.Table:
        return pa.concat_tables(told.rows or [part.spec.schema.empty_table()])

    def _netted(self, part: SitePart, work: SiteWork, told: PartMail) -> tuple[pa.Table, list[Message]]:
        """The rows of the batch, one a key, and how many of those that must be there are."""
        if self.job.does == LOADS:
            return self._joined(part, told), []
        names = part.spec.schema.names
        none = pa.schema([*part.spec.schema, (OP, pa.uint8()), (SEQ, pa.int64()), (FRAGMENT, pa.int32())])
        rows = pa.concat_tables([none.empty_table(), *told.rows], promote_options="default").sort_by(SEQ)
        ops, fragment = rows.column(OP).to_numpy().astype(np.uint8), rows.column(FRAGMENT).to_numpy()
        changes = Changes(rows.select(names), ops)
        ids = work.key_ids(changes.rows)
        there = work.ask("presence", self.job.batch, changes.rows.select([*self.job.key]))
        alone = len({other.fragment for other in self.job.parts}) == 1
        found = net_of_part(changes, self.job.key, ids, there, fragment, part.fragment, alone=alone)
        note = say(SUMMARY, {"wanted": found.wanted if part.fragment == 0 else 0, "there": found.there})
        table = found.net.rows.append_column(NOW, pa.array(found.net.now))
        return table, [note] if part.first and not alone else []

    def _kept(self, part: SitePart, rows: pa.Table) -> Iterator[Message]:
        if len(self.job.rounds) == 1 or self.job.whole:
            return
        here = self.job.task_of(part.number)
        if rows.nbytes <= STORED_FROM:
            yield Message(here, BEGUN, part.number, "", pack(rows))
            return
        with StateFiles(part.state) as files:
            run = files.write_tables("begun", self.job.standing[part.number].version + 1, [rows])
        yield Message(here, STORED, part.number, "", pa.py_buffer(json.dumps(run.to_dict()).encode()))

    def _rows_again(self, part: SitePart, told: PartMail) -> pa.Table:
        if told.begun is not None:
            return told.begun
        stored = next((message for message in told.carried if message.kind == STORED), None)
        if stored is None:  # an earlier stage failed, and has said why
            raise HoldstrueError(f"part {part.spec.name!r} has not begun", hint="apply the batch again")
        with StateFiles(part.state) as files:
            return files.read_tables(RunFile.of(stored.data()))[0]

    # --- the last stage ---------------------------------------------------------------------------

    def _summary(self, part: SitePart, held: OpenPart, found: Mapping[int, Any]) -> Message:
        work, repeated = held.work, held.work.repeated
        said: dict[str, Any] = {
            "part": part.number,
            "fingerprint": work.fingerprint,
            "changed": {str(cfd): [keys.added.num_rows, keys.removed.num_rows] for cfd, keys in found.items()},
            "sent": work.ask("sent"),
            "got": {} if repeated else work.got(),
            "tally": work.tally(),
            "repeated": repeated,
        }
        if self.job.does == CHECKS or repeated:
            return say(SUMMARY, said)
        work.ask("prepare")
        rows = work.entries
        work.ask("commit")
        run, base = held.state.written or (None, {})
        if run is None:
            raise HoldstrueError(f"part {part.spec.name!r} wrote nothing", hint="apply the batch again")
        said |= {"run": run.to_dict(), "rows": rows, "base": {name: file.to_dict() for name, file in base.items()}}
        held.name, held.progress = base["arrays"].name if base else run.name, None
        return say(SUMMARY, said)


@dataclass(frozen=True)
class WholeBatch(PartStage):
    """All rounds of a batch of few changes in one task: what parts tell each other does not leave it.

    A round that is a stage of its own costs a shuffle, and often another worker that must first be told all again.
    """

    def _messages(self, came: list[Message]) -> Iterator[Message]:
        yield from (message for message in came if message.kind == ERROR)
        if any(message.kind == ERROR for message in came) or not came:
            return
        held: dict[int, OpenPart] = {}
        try:
            yield from self._rounds(self._told(came), held)
        except HoldstrueError as error:
            yield failure(error, self.at)
        finally:
            # parts that did not come to the end of the batch take it back when they are taken next
            for part in self.job.parts:
                if part.number in held:
                    POOL.put(part, held[part.number])

    def _rounds(self, told: Mapping[int, PartMail], held: dict[int, OpenPart]) -> Iterator[Message]:
        job, last = self.job, len(self.job.rounds) - 1
        for part in job.parts:
            held[part.number], note = self._begun(part, told.get(part.number) or PartMail())
            held[part.number].progress = job.attempt, 0
            yield from note
        mail: dict[int, list[SiteMessage]] = {}
        for at in range(len(job.rounds)):
            sent: dict[int, list[SiteMessage]] = {}
            for part in job.parts:
                answers = self._asked(held[part.number].work, mail.get(part.number, ()), at)
                if at == last:
                    yield self._summary(part, held[part.number], answers[-1])
                    continue
                for one in answers[-1]:
                    sent.setdefault(job.by_name[one.target].number, []).append(one)
            mail = sent


# --- mail -----------------------------------------------------------------------------------------------


def write_mail(mail: SiteMessage) -> pa.Buffer:
    """A message from part to part as bytes: what it says of itself, then what it holds."""
    about = {name: value for name, value in vars(mail).items() if name not in ("body", "checksum")}
    head = json.dumps({**about, "checksum": mail.checksum.hex()}).encode()
    return pa.py_buffer(len(head).to_bytes(4, "little") + head + mail.body)


def read_mail(data: pa.Buffer) -> SiteMessage:
    """Back from `write_mail`."""
    known = data.to_pybytes()
    size = int.from_bytes(known[:4], "little")
    about = json.loads(known[4 : 4 + size])
    return SiteMessage(**{**about, "checksum": bytes.fromhex(about["checksum"]), "body": known[4 + size :]})
