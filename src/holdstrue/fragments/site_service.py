"""One site as a process of its own: who may call it, in which order, and what it does when it is asked to act for all.

Three kinds of calls come in. A site that brings a batch to all (whichever site was asked to) calls within its session:
one at a time has a site to itself, and one that is silent for longer than its lease has lost it. Other sites bring
messages. People, through the command line, offer changes and ask for batches and violations. Values of rows go to
people at the site alone; keys of rows go to the sites that hold the same rows, to others only how many there are.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from holdstrue.data.changes import Changes
from holdstrue.data.seed import Seed
from holdstrue.detect.resolve import fitted
from holdstrue.errors import HoldstrueError, StateError
from holdstrue.fragments.apart_relation import ApartRelation, KnownDesign, SiteFacts
from holdstrue.fragments.declaration import Declaration
from holdstrue.fragments.design import RelationDesign, designed
from holdstrue.fragments.fragment_layout import Site
from holdstrue.fragments.frames import (
    SiteBusyError,
    error_head,
    framed,
    message_frame,
    message_of,
    unframed,
)
from holdstrue.fragments.indexed_rows import ChangedKeys, keys_table
from holdstrue.fragments.netting import netted, stays
from holdstrue.fragments.offers import Offers
from holdstrue.fragments.own_rows import refuse_foreign
from holdstrue.fragments.relation import LOAD, named
from holdstrue.fragments.remote_host import LONGEST, PATIENCE, Carry, RemoteHost, called, packed_answer
from holdstrue.fragments.shipping_plan import ShippingPlan
from holdstrue.fragments.site_host import open_site
from holdstrue.fragments.site_state import SiteState, kept_plan, site_schema
from holdstrue.fragments.site_work import SiteWork
from holdstrue.shards.wire import pack
from holdstrue.state.journal import facts_of
from holdstrue.state.object_url import is_object_url
from holdstrue.state.schema_text import schema_of, schema_text

LEASE = 90.0
"""Seconds of silence after which a session is over. Chosen, not tuned: longer than one site waits for another."""

_PLAIN = frozenset(
    {
        "last", "count", "done", "size", "start_over", "align", "portions", "slices", "settle", "compare", "commit",
        "violates",
    }
)  # fmt: skip
"""Verbs of a session that the site's work answers as they are."""


@dataclass
class _Session:
    """Who has the site, and the last call with its answer."""

    name: str
    by: str
    """The site that brings the batch."""
    heard: float
    turn: int = 0
    answer: bytes = b""
    running: bool = False


class SiteService:
    """A site of a declared relation.

    Parameters
    ----------
    carry
        Brings a frame to another site, by its name.
    lease
        Seconds of silence after which a session is over.
    patience
        Seconds for which a site that does not answer is called again.
    """

    def __init__(
        self, declared: Declaration, name: str, carry: Carry, *, lease: float = LEASE, patience: float = PATIENCE
    ) -> None:
        self._declared = declared
        self._site = _site_of(declared, name)
        if self._site.state is None or is_object_url(str(self._site.state)):
            raise HoldstrueError(
                f"site {name!r} has no state directory on this machine",
                hint="give it one in the file: state: DIRECTORY",
            )
        self._carry_out, self._lease, self._patience = carry, lease, patience
        self._offers = Offers(Path(f"{self._site.state}.offers"))
        self._lock = threading.RLock()
        self._idle = threading.Condition(self._lock)
        self._acting = threading.Lock()
        self._session: _Session | None = None
        self._bringing = ""
        """The session in which this site brings something to all."""
        self._taken = ""
        """The batch that the site took up last."""
        self._told: dict[str, Any] | None = None
        self._design: RelationDesign | None = None
        self._work: SiteWork | None = None
        self._known: KnownDesign | None = None
        """What all sites had open when this one last brought something to them."""
        self._people: Mapping[str, Callable[[Mapping[str, Any], bytes], bytes]] = {
            "offer": self._offer, "load": self._load, "apply": self._apply, "violations of all": self._violations,
            "status": self._status,
        }  # fmt: skip

    @property
    def name(self) -> str:
        """The site's name."""
        return self._site.name

    def close(self) -> None:
        """Let go of the state."""
        with self._lock:
            if self._work is not None:
                self._work.close()
                self._work = None

    # --- calls --------------------------------------------------------------------------------------

    def answer(self, data: bytes) -> bytes:
        """Answer a call; an error in it is an answer too."""
        try:
            head, body = unframed(data)
            verb = str(head.get("verb"))
            self._refuse_other(str(head.get("site", self.name)))
            if verb == "bringing":
                return packed_answer(self._bringing)
            if verb in self._people:
                return self._people[verb](head, body)
            with self._lock:
                if verb == "receive":
                    self._refuse_strangers(head)
                    self._opened().ask("receive", message_of(head, body))
                    return packed_answer(None)
                return self._once(head, body)
        except HoldstrueError as error:
            return framed(error_head(error))

    def _refuse_other(self, meant: str) -> None:
        """Whoever has another site's address in place of this one's must not take the answer for the other's."""
        if meant != self.name:
            raise HoldstrueError(
                f"site {self.name!r} answers where site {meant!r} should",
                hint="compare the addresses in the file with where sites listen",
            )

    def _refuse_strangers(self, head: Mapping[str, Any]) -> None:
        if self._session is None or head.get("session") != self._session.name:
            raise SiteBusyError(
                f"site {self.name!r} does not know this session, or has given it up",
                hint="apply the batch again",
            )

    def _once(self, head: Mapping[str, Any], body: bytes) -> bytes:
        """Do what a session asks for, once for every number of a call."""
        verb, turn = str(head["verb"]), int(head.get("turn", 0))
        if verb == "enter":
            self._enter(str(head["session"]), str(next(iter(head.get("args", ())), "")))
        self._refuse_strangers(head)
        session = self._session
        if session is None:
            raise StateError(f"no session is open at site {self.name!r}")
        # a call that is repeated while it is still being done waits for it
        if not self._idle.wait_for(lambda: not session.running, timeout=LONGEST):
            raise SiteBusyError(f"site {self.name!r} is still at work on call {turn}", hint="look at its machine")
        session.heard = time.monotonic()
        if turn == session.turn:
            return session.answer
        if turn < session.turn:
            raise HoldstrueError(f"call {turn} of a session came after call {session.turn}", hint="nothing was done")
        session.running = True
        try:
            session.answer = packed_answer(self._verb(verb, *self._args(head, body)))
        except HoldstrueError as error:
            session.answer = framed(error_head(error))
        finally:
            session.running = False
            self._idle.notify_all()
        session.turn, session.heard = turn, time.monotonic()
        return session.answer

    @staticmethod
    def _args(head: Mapping[str, Any], body: bytes) -> list[Any]:
        args = list(head.get("args", ()))
        if head.get("table"):
            args.append(pa.ipc.open_stream(pa.BufferReader(body)).read_all())
        return args

    def _enter(self, name: str, by: str) -> None:
        """Let a session have the site, unless another one has; what that left unfinished is given up."""
        held = self._session
        if held is not None and held.name != name:
            silent = time.monotonic() - held.heard >= self._lease
            if held.running or not (silent or self._is_over(held)):
                raise SiteBusyError(
                    f"site {self.name!r} is busy with a batch that {held.by or 'another site'} brings",
                    hint="try again in a moment",
                )
            self._give_up()
        if self._session is None:
            self._session = _Session(name, by, time.monotonic())

    def _is_over(self, held: _Session) -> bool:
        """Whether the site that brought a batch says that it does not any more: it may have died and come back."""
        if held.by == self.name:
            return held.name != self._bringing
        try:
            head, _ = called(self._carry_out, held.by, framed({"verb": "bringing"}), 0.0)
        except HoldstrueError:
            return False  # it may be beyond a wire that is cut, and still bring it
        return bool(head.get("answer") != held.name)

    def _give_up(self) -> None:
        self._session = None
        if self._work is not None:
            self._work.ask("abort")

    def _verb(self, verb: str, *args: Any) -> Any:
        match verb:
            case "enter":
                return self._greeting(str(args[1]) if len(args) > 1 else "")
            case "leave":
                self._give_up()
                for batch in args:
                    self._release(batch)
                return None
            case "hello":
                return self._hello()
            case "open":
                return self._open(args[0])
            case "take_up":
                return self._take_up(args[0])
            case "send":
                return self._send(*args)
            case "finish" | "finish_counts":
                found = self._opened().ask("finish")
                return keys_table(found) if verb == "finish" else self._counted(found)
            case "violations" | "violation_counts":
                listed = self._opened().ask("violations")
                whole = {cfd: ChangedKeys(keys, keys.slice(0, 0)) for cfd, keys in listed.items()}
                return keys_table(whole) if verb == "violations" else self._counted(whole)
            case "prepare":
                self._opened().ask(verb, *args)
                if self._taken:
                    self._offers.hold(self._taken)
                return None
            case "abort":
                # whoever brings the batch has not told anybody to commit it
                self._opened().ask(verb)
                self._offers.free(self._taken)
                return None
            case "begin_load":
                self._taken = ""
                return self._opened().ask(verb, *args)
            case _ if verb in _PLAIN:
                return self._opened().ask(verb, *args)
        raise HoldstrueError(f"a site cannot {verb!r}", hint="do all sites run the same version?")

    def _opened(self) -> SiteWork:
        if self._work is None:
            raise StateError(f"site {self.name!r} has just started", hint="apply the batch again")
        return self._work

    # --- what sites agree on ------------------------------------------------------------------------

    def _greeting(self, batch: str) -> dict[str, Any]:
        """What is open here, the last batch, and whether a batch was committed."""
        if self._work is None:
            return {"print": ""}
        last, done = self._work.ask("last"), bool(batch) and self._work.ask("done", batch)
        return {"print": self._opened_print(), "last": last, "done": done}

    def _release(self, batch: str) -> None:
        """Forget what was kept to answer for a batch, which every site has."""
        if self._work is not None:
            self._work.ask("release", batch)
        self._offers.drop(batch)

    def _opened_print(self) -> str:
        """What tells the design that is open here from others; nothing where none is."""
        if self._work is None or self._told is None:
            return ""
        return hashlib.blake2b(json.dumps(self._told, sort_keys=True).encode(), digest_size=16).hexdigest()

    def _hello(self) -> SiteFacts:
        """What this site brings to the design: its columns, and seed and plan where its state has them."""
        state = str(self._site.state)
        facts: SiteFacts = {"schema": schema_text(site_schema(self._site, None)), "seed": None, "plan": None}
        if SiteState.exists(state):
            plan: ShippingPlan | None
            if self._work is not None and self._design is not None:
                seed, plan = self._design.seed, self._design.plan
            else:
                seed = facts_of(state, "site", lambda kept: Seed.of(kept["digest"]))
                plan = kept_plan([state], self._declared.plan)
            facts |= {"seed": seed.to_dict(), "plan": None if plan is None else plan.to_fact()}
        return facts

    def _open(self, told: dict[str, Any]) -> None:
        """Take over what all sites have agreed on, the same design as theirs."""
        if self._work is not None and told == self._told:
            return
        schemas = {name: schema_of(text) for name, text in told["schemas"].items()}
        sites = [replace(site, source=None, state=None) for site in self._declared.sites]
        design = designed(
            sites, self._declared.rules, self._declared.key, schemas, self._declared.options,
            seed=Seed.of(told["seed"]), kept=ShippingPlan.of_fact(told["plan"]), recall=self._declared.recall,
        )  # fmt: skip
        if design.plan.to_fact() != ShippingPlan.of_fact(told["plan"]).to_fact():
            raise HoldstrueError(
                f"the file of site {self.name!r} declares other rules or sites", hint="give all sites the same file"
            )
        if self._work is not None:
            self._work.close()
            self._work = None
        [site] = [site for site in design.layout.sites if site.name == self.name]
        own = replace(site, source=self._site.source, state=self._site.state, read=self._site.read)
        self._work = open_site(design.specs[self.name], own)
        self._design, self._told = design, told

    # --- a batch ------------------------------------------------------------------------------------

    def _take_up(self, batch: str) -> list[Any]:
        """Begin a batch with what was offered for it here: whether anything was, its fingerprint, what it weighs."""
        self._taken = batch
        given = self._offers.get(batch)
        known = given is not None or self._opened().ask("last") == batch
        return [known, self._begin(batch, given), *self._opened().ask("weigh")]

    def _begin(self, batch: str, offered: Changes | None) -> str:
        work = self._opened()
        schema, key = work.spec.schema, work.spec.key
        if work.ask("last") == batch:
            return str(work.ask("begin", batch))
        if offered is None:
            offered = Changes(schema.empty_table(), pa.array([], pa.uint8()).to_numpy())
        for done in self._offers.names():
            # whoever brings a batch has finished the one before it everywhere
            if done != batch and work.ask("done", done):
                self._offers.drop(done)
        self._offers.free_others(batch)
        rows = fitted(offered, schema, key)
        net = netted(replace(offered, rows=rows), key, work.key_ids(rows), partial(work.ask, "presence", batch))
        self._refuse_foreign(work, net.rows.filter(pa.array(net.now)))
        return str(work.ask("begin", batch, net.rows, net.now))

    @staticmethod
    def _refuse_foreign(work: SiteWork, rows: pa.Table) -> None:
        try:
            refuse_foreign(work.spec, rows)
        except HoldstrueError as error:
            hint = "a row that moves is deleted at one site and inserted at the other"
            raise type(error)(error.message, hint=hint) from error

    def _send(self, verb: str, *args: Any) -> list[list[Any]]:
        """Let the work send, straight to the sites that it is for; how much went where."""
        session = "" if self._session is None else self._session.name
        sent = self._opened().ask(verb, *args)
        found = []
        for message in sent:
            frame = message_frame(message, session)
            # others may bring messages here meanwhile
            self._lock.release()
            try:
                called(self._carry_out, message.target, frame, self._patience)
            finally:
                self._lock.acquire()
            found.append([message.target, 1, message.entries, message.size])
        return found

    def _counted(self, found: Mapping[int, ChangedKeys]) -> dict[str, list[int]]:
        """By rule how many rows, each counted once at this site."""
        if self._design is None:
            raise StateError(f"site {self.name!r} has just started", hint="ask again")
        by_rule: dict[str, list[ChangedKeys]] = {}
        for cfd, keys in found.items():
            by_rule.setdefault(self._design.rules.rules[self._design.cfds[cfd].rule].name, []).append(keys)
        return {rule: [_distinct([keys[side] for keys in some]) for side in (0, 1)] for rule, some in by_rule.items()}

    # --- people -------------------------------------------------------------------------------------

    def _offer(self, head: Mapping[str, Any], body: bytes) -> bytes:
        batch = named(str(head["batch"]))
        table = pa.ipc.open_stream(pa.BufferReader(body)).read_all()
        ops = table.column(":op").combine_chunks().to_numpy(zero_copy_only=False)
        with self._lock:
            if self._work is not None and self._work.ask("done", batch):
                return packed_answer({"repeated": True})
            changes = Changes(table.drop_columns([":op"]), ops)
            if self._work is not None:
                # whoever offers what does not fit is told so, and not who applies the batch
                rows = fitted(changes, self._work.spec.schema, self._work.spec.key)
                self._refuse_foreign(self._work, rows.filter(pa.array(stays(changes.ops, self._work.key_ids(rows)))))
            self._offers.put(batch, changes)
        return packed_answer({"repeated": False})

    def _status(self, _: Mapping[str, Any], __: bytes) -> bytes:
        with self._lock:
            told: dict[str, Any] = {"site": self.name, "open": self._work is not None, "offered": self._offers.names()}
            told["busy"] = self._session is not None
            if self._work is not None:
                told |= {"last": self._work.ask("last"), "batches": self._work.ask("count"), **self._work.ask("size")}
        return packed_answer(told)

    def _load(self, _: Mapping[str, Any], __: bytes) -> bytes:
        return self._act(lambda relation: relation.load(), LOAD)

    def _apply(self, head: Mapping[str, Any], _: bytes) -> bytes:
        batch = str(head["batch"])
        try:
            return self._act(lambda relation: relation.take_up(batch), batch)
        except HoldstrueError as error:
            # after a StateError some sites may have it; else nobody knows its name, to offer better changes under it
            if head.get("once") and not isinstance(error, StateError):
                with self._lock:
                    self._offers.drop(batch)
            raise

    def _violations(self, _: Mapping[str, Any], __: bytes) -> bytes:
        return self._act(lambda relation: relation.known())

    def _act(self, action: Callable[[ApartRelation], Any], batch: str = "") -> bytes:
        """Bring something to all sites; one thing at a time. `batch` names the one that it is about."""
        with self._acting:
            names = [site.name for site in self._declared.sites]
            host = RemoteHost(self.name, names, self._carry, self._patience)
            self._bringing = host.session
            try:
                relation = ApartRelation.opened(self._declared, self.name, host, self._known, batch)
                with self._lock:
                    self._known = KnownDesign(relation.design, self._opened_print())
                delta = action(relation)
                return framed(delta.head(), pack(delta.keys(self._declared.key)).to_pybytes())
            finally:
                self._bringing = ""
                host.close()

    def _carry(self, site: str, frame: bytes) -> bytes:
        """To another site, or to this one without leaving the process."""
        return self.answer(frame) if site == self.name else self._carry_out(site, frame)


def _site_of(declared: Declaration, name: str) -> Site:
    for site in declared.sites:
        if site.name == name:
            return site
    known = ", ".join(site.name for site in declared.sites)
    raise HoldstrueError(f"no site is called {name!r}", hint=f"the sites are {known}")


def _distinct(tables: list[pa.Table]) -> int:
    if len(tables) == 1:
        return int(tables[0].num_rows)
    whole = pa.concat_tables(tables)
    return int(whole.group_by(whole.column_names).aggregate([]).num_rows)
