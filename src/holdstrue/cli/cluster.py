"""What `check`, `discover`, `suspects`, `init`, `apply` and `fragments` do on Spark."""

from __future__ import annotations

import re
import shutil
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdstrue.cli.failures import spark_says
from holdstrue.cli.options import LOCAL, Conf, EngineKind, Master, settings
from holdstrue.errors import ChangeError, DataError, HoldstrueError, StateError
from holdstrue.location import local_path
from holdstrue.state.object_url import is_object_url

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdstrue.detect.delta import Delta
    from holdstrue.detect.resolve import OnConflict
    from holdstrue.discovery.discovery import Discovery
    from holdstrue.fragments.declaration import Declaration
    from holdstrue.fragments.relation import Relation
    from holdstrue.index.protocol import IndexKind
    from holdstrue.rules import RuleSet
    from holdstrue.rules.types import Declared
    from holdstrue.shards.facts import Facts
    from holdstrue.spark import Report
    from holdstrue.spark.suspecting.frame_suspects import FrameSuspects

Files = Mapping[str, Sequence[str]]

_MASTER = re.compile(r"local(-cluster)?(\[[\d*][\d*,. ]*\])?|yarn|(spark|k8s|sc)://\S+")


@dataclass(frozen=True)
class SparkOptions:
    """Where the work of a command is done."""

    engine: EngineKind = "process"
    master: Master = None
    conf: Conf = None

    def cluster(self) -> Cluster | None:
        """Where Spark runs; None where the work is done in one process."""
        if self.engine == "spark":
            return Cluster.of(self.master, self.conf)
        if self.master is not None or self.conf:
            option = "--conf" if self.master is None else "--master"
            raise HoldstrueError(f"{option} is about Spark", hint="add --engine spark, or leave it out")
        return None


@dataclass(frozen=True)
class Cluster:
    """Where Spark runs, and with which settings."""

    master: str
    conf: Mapping[str, str]

    @staticmethod
    def of(master: str | None, conf: list[str] | None) -> Cluster:
        """From the options of a command."""
        if master is not None and not _MASTER.fullmatch(master):
            raise HoldstrueError(
                f"--master {master!r} is no place where Spark runs",
                hint="local[N] or local[*], spark://HOST:PORT, yarn, k8s://..., or sc://HOST:PORT for Spark Connect",
            )
        # names that differ in case only are different columns here, as they are in one process
        return Cluster(master or LOCAL, {"spark.sql.caseSensitive": "true"} | settings(conf))

    def session(self) -> SparkSession:
        """The session; to be asked for before pyspark is imported, since it says what to do where that is missing."""
        from holdstrue.spark import start

        try:
            return start(self.master, self.conf)
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark.", "py4j.")):
                raise
            raise HoldstrueError(
                f"Spark does not start at {self.master}: {spark_says(error)}",
                hint="check --master and --conf; what Spark itself said stands above",
            ) from error

    def check(
        self,
        files: Files,
        rules: RuleSet,
        *,
        key: tuple[str, ...],
        limit: int,
        index: IndexKind,
        read: Mapping[str, Any],
        accepted: str | None = None,
    ) -> Report:
        """Find every violation in tables of files; the rules name the main one."""
        from holdstrue.data.notes import Notes
        from holdstrue.plan.compile import main_table, needed_columns
        from holdstrue.rules.types import types_of_table

        main = main_table(rules, tuple(files))
        needed = needed_columns(rules, main)
        own = key or rules.key
        declared = {name: types_of_table(rules.types, name, main, files) for name in files}
        _require(files, rules, main, own, read, declared)
        spark = self.session()
        from holdstrue.spark import check
        from holdstrue.spark.files import frame_of

        frames, notes = {}, Notes()
        types: dict[str, str] = {}
        for name, paths in files.items():
            columns = tuple(dict.fromkeys((*(own if name == main else ()), *needed[name])))
            frames[name] = frame_of(spark, paths, columns, read, types=declared[name], notes=notes)
            types |= {f"{name}.{c}": type_.text for c, type_ in declared[name].items() if c in columns}
        asked = replace(rules, types=())
        report = check(frames, asked, key=key or None, limit=limit, index=index, types=types, accepted=accepted)
        notes.add(*report.notes)
        return replace(report, notes=tuple(notes))

    def discover(
        self,
        sources: Any,
        kinds: Sequence[str],
        *,
        key: Any,
        state: str | None,
        read: Any,
        types: Mapping[str, str],
        **choices: Any,
    ) -> Discovery:
        """Find the rules of files."""
        from holdstrue.data.notes import Notes
        from holdstrue.rules.types import types_of_table

        spark = self.session()
        from holdstrue.spark import discover
        from holdstrue.spark.files import frame_of

        named = sources if isinstance(sources, Mapping) else {"data": sources}
        files = {name: [paths] if isinstance(paths, str) else list(paths) for name, paths in named.items()}
        frames, notes = {}, Notes()
        for name, paths in files.items():
            declared = types_of_table(tuple(types.items()), name, next(iter(files)), files)
            frames[name] = frame_of(spark, paths, None, read, types=declared, notes=notes)
        data = frames if isinstance(sources, Mapping) else frames["data"]
        found = discover(data, kinds, key=key, state=state, types=types, **choices)
        notes.add(*found.notes)
        found.notes = tuple(notes)
        return found

    def suspects(
        self,
        files: Sequence[str],
        rules: RuleSet | None,
        *,
        read: Mapping[str, Any],
        types: Mapping[str, str],
        **choices: Any,
    ) -> FrameSuspects:
        """Find the cells of files that are probably wrong."""
        from holdstrue.data.notes import Notes
        from holdstrue.plan.compile import main_table
        from holdstrue.rules.types import checked_types, types_of_table

        spark = self.session()
        from holdstrue.spark import suspects
        from holdstrue.spark.files import frame_of

        main = "data" if rules is None else main_table(rules, ())
        declared = (*(() if rules is None else rules.types), *checked_types(types.items()))
        notes = Notes()
        own = types_of_table(declared, main, main, (main,))
        frame = frame_of(spark, list(files), None, read, types=own, notes=notes)
        found = suspects(frame, rules, types=types, **choices)
        notes.add(*found.notes)
        return replace(found, notes=tuple(notes))

    def create(
        self,
        state: str,
        rules: RuleSet,
        keys: Mapping[str, tuple[str, ...]],
        files: Files,
        index: IndexKind,
        read: Any,
        sequence_by: Mapping[str, str],
    ) -> tuple[str, ...]:
        """Make a state directory, with the rows of files if any are given; it appears whole or not at all.

        Returns what there is to know about how they were read.
        """
        from holdstrue.data.notes import Notes
        from holdstrue.plan.compile import main_table
        from holdstrue.rules.types import types_of_table
        from holdstrue.shards.facts import kept_names, keys_of
        from holdstrue.state.files import StateFiles

        with StateFiles(state) as place:
            place.vacant()
        final = None if is_object_url(state) else Path(local_path(state, "state")).absolute()
        if final is not None and final.is_dir() and any(final.iterdir()):
            # the state is made elsewhere and moved here, which takes an empty directory
            raise StateError(
                f"{final} was given up by an earlier init before anything was in it",
                hint="remove it, and try again",
            )
        spark = self.session()
        from holdstrue.spark import Monitor
        from holdstrue.spark.files import frame_of

        main = main_table(rules, tuple(name for name in keys if name != rules.table))
        whole = keys_of(rules, keys, main)
        frames, notes = {}, Notes()
        for name, paths in files.items():
            declared = types_of_table(rules.types, name, main, whole)
            watched = kept_names(rules, main, whole, name, sequence_by)
            frames[name] = frame_of(spark, paths, None, read, types=declared, watched=watched, notes=notes)
        if final is None:
            try:
                notes.add(
                    *Monitor(spark, state, rules, keys, data=frames or None, index=index, sequence_by=sequence_by).notes
                )
            except BaseException:
                with StateFiles(state) as place:
                    place.erase()
                raise
            return tuple(notes)
        made = final.with_name(f".{final.name}.{uuid.uuid4().hex[:8]}.tmp")
        try:
            notes.add(
                *Monitor(spark, made, rules, keys, data=frames or None, index=index, sequence_by=sequence_by).notes
            )
            made.replace(final)
            return tuple(notes)
        finally:
            shutil.rmtree(made, ignore_errors=True)

    def apply(
        self,
        state: str,
        known: Facts,
        files: Files,
        batch_id: str | None,
        *,
        limit: int,
        on_conflict: OnConflict,
        types: Mapping[str, str],
        read: Mapping[str, Any],
    ) -> Delta:
        """Apply change files as one batch; `read` are the options of `read_changes`."""
        from holdstrue.sources.read import paths_of

        require_columns_known(known, tuple(files))
        for given in files.values():
            refuse_lake(given)
        paths = {name: paths_of(list(given)) for name, given in files.items()}
        spark = self.session()
        from holdstrue.spark import Monitor
        from holdstrue.spark.stream import in_file

        monitor = Monitor(spark, state)
        changes = {name: monitor.files(path.absolute() for path in own) for name, own in paths.items()}
        try:
            return monitor.apply(
                changes, batch_id, limit=limit, on_conflict=on_conflict, feed="files", types=types, read=read
            )
        except ChangeError as error:
            raise in_file(error, *(str(path) for own in paths.values() for path in own)) from error

    def relation(self, declared: Declaration) -> Relation:
        """A relation split over sites, whose files are data frames."""
        for site in declared.sites:
            if site.source is None:
                raise HoldstrueError(
                    f"site {site.name!r} has no source", hint="give it one in the file: source: s1.csv"
                )
        spark = self.session()
        from holdstrue.spark import relation
        from holdstrue.spark.files import frame_of

        sites = [
            replace(site, source=frame_of(spark, [str(site.source)], None, site.read), state=str(site.state))
            for site in declared.sites
        ]
        return relation(
            spark, sites, declared.rules, declared.key, plan=declared.plan, k=declared.k, seconds=declared.seconds,
            shares=declared.shares, recall=declared.recall,
        )  # fmt: skip


def refuse_lake(source: Sequence[str]) -> None:
    """Refuse a table where change files are expected."""
    from holdstrue.sources.lakehouse import NAMES, lake_table

    table = lake_table(list(source))
    if table is not None:
        raise DataError(
            f"{table} is a table of {NAMES[table.format]}, not a file of changes",
            hint="follow its change log with: holdstrue watch STATE table:NAME; or leave out --engine spark",
        )


def require_columns_known(known: Facts, tables: Sequence[str]) -> None:
    """Refuse tables whose columns a state does not know yet: the tasks that read files could not agree on types."""
    for name in tables:
        if name not in known.schemas:
            raise ChangeError(
                f"the columns of table {name!r} are not known yet",
                hint="give its first rows to init (--data, --table), or apply them without --engine spark",
            )


def _require(
    files: Files,
    rules: RuleSet,
    main: str,
    key: Sequence[str],
    read: Mapping[str, Any],
    declared: Mapping[str, Mapping[str, Declared]],
) -> None:
    """Refuse what the first files show to be wrong, before Spark is started for it."""
    from holdstrue.plan.bind import require_columns
    from holdstrue.sources.lakehouse import lake_table
    from holdstrue.sources.read import schema_of

    if any(lake_table(list(paths)) for paths in files.values()):
        return  # its own library may be in Spark only
    schemas = {name: schema_of(list(paths), types=declared[name], **read) for name, paths in files.items()}
    require_columns(rules, main, schemas)
    names = schemas[main].names
    for name in key:
        if name not in names:
            raise DataError(f"no key column {name!r}", hint=f"the columns are {', '.join(names)}")
