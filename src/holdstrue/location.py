"""Where a path or a URL points: to this machine's file system, or to a place that is refused by name."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from holdstrue.errors import DataError, HoldstrueError, RuleError, StateError

What = Literal["data", "state", "rules", "output"]

_ERRORS: dict[What, type[HoldstrueError]] = {
    "data": DataError, "state": StateError, "rules": RuleError, "output": HoldstrueError,
}  # fmt: skip

# `jdbc:postgresql://` too. A single slash is what pathlib makes of two: that counts for well-known names only, since
# a folder may be called `a:`. One letter is a drive of Windows.
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.\-]+(?::[A-Za-z][A-Za-z0-9+.\-]*)*):(//?)")

_STORES = frozenset(
    [
        "s3",
        "s3a",
        "s3n",
        "gs",
        "gcs",
        "abfs",
        "abfss",
        "adl",
        "az",
        "azure",
        "wasb",
        "wasbs",
        "r2",
        "oss",
        "cos",
        "hdfs",
        "viewfs",
        "webhdfs",
        "swift",
        "dbfs",
    ]
)
_BUCKETS = frozenset(["s3", "s3a", "gs", "az", "abfss"])
"""Of these the ones that keep states."""
_WEB = frozenset(["http", "https", "ftp", "ftps", "sftp", "scp", "ssh"])
_DATABASES = frozenset(
    [
        "postgresql",
        "postgres",
        "mysql",
        "mariadb",
        "sqlite",
        "duckdb",
        "oracle",
        "mssql",
        "sqlserver",
        "snowflake",
        "bigquery",
        "redshift",
        "trino",
        "presto",
        "clickhouse",
        "mongodb",
        "jdbc",
        "odbc",
        "db2",
        "databricks",
    ]
)


def local_path(source: str | os.PathLike[str], what: What = "data") -> str:
    """The path on this machine that a path or a `file:` URL stands for; any other URL is refused by name.

    Parameters
    ----------
    what
        What would be read or written there, which decides the hint and the kind of error.

    Examples
    --------
    >>> local_path("tax.csv"), local_path("file:///data/a%20b.csv"), local_path("c:/tax.csv")
    ('tax.csv', '/data/a b.csv', 'c:/tax.csv')
    >>> local_path("hdfs://node/state", "state")
    Traceback (most recent call last):
    holdstrue.errors.StateError: 'hdfs://node/state' is not on this machine: a state cannot be kept at hdfs://
    hint: give a directory of this machine or of a file system mounted here, or s3://, s3a://, gs://, az:// or abfss://
    """
    text = os.fspath(source)
    if what == "state" and not text.strip():
        raise StateError("no place was given for a state", hint="give a directory or a URL")
    family = _family(text)
    if family is None:
        return text
    if family == "file":
        return _file(text, what)
    if family == "dbfs" and (mounted := _mounted(text)) is not None:
        return mounted
    found = _URL.match(text)
    assert found is not None
    if found[2] == "/":  # a pathlib.Path of a URL
        text = text.replace(":/", "://", 1)
    text = shown(text)
    if what == "state" and family in _BUCKETS and not text.partition("://")[2].strip("/"):
        raise StateError(f"{text!r} names no bucket", hint=f"for example {found[1]}://bucket/folder")
    verb = {"data": "data cannot be read from", "state": "a state cannot be kept at",
            "rules": "rules cannot be read from", "output": "nothing can be written to"}[what]  # fmt: skip
    raise _ERRORS[what](f"{text!r} is not on this machine: {verb} {found[1]}://", hint=_hint(text, family, what))


_KEYWORD = re.compile(r"(?i)\b(password|passwd|pwd|token|secret|sslpassword)=[^&\s]*")


def shown(source: str | os.PathLike[str]) -> str:
    """A path or URL as it may go to logs and screens: without passwords, and without the query of a web address.

    >>> shown("postgresql://me:secret@host/db?table=t"), shown("https://host/t.csv?signature=abc"), shown("a.csv")
    ('postgresql://me:***@host/db?table=t', 'https://host/t.csv?...', 'a.csv')
    """
    text = os.fspath(source)
    if text.lower().startswith("adbc:"):
        # what a driver is given may hold a password anywhere
        return re.sub(r"(?i)\buri=.*?(?=&(?:table|query)=|$)", "uri=***", text)
    if not _URL.match(text):
        return _KEYWORD.sub(r"\1=***", text)
    # a password may hold a slash or an @ that should have been encoded: up to the last @ before the query
    head, mark, query = text.partition("?")
    head = re.sub(r"(://?)([^/@:?#]*):[^?]*@", r"\1\2:***@", head)
    if re.match(r"(?i)https?:", text):
        # a token may stand where a name would, and a query may be a signature
        head = re.sub(r"(?i)^(https?://?)[^/@]*@", r"\1***@", head)
        return head + ("?..." if mark else "")
    return head + mark + _KEYWORD.sub(r"\1=***", query)


def is_elsewhere(source: str | os.PathLike[str]) -> bool:
    """Whether a URL names a place that is none of this machine's file system.

    >>> is_elsewhere("s3a://bucket/a"), is_elsewhere("dbfs:/a"), is_elsewhere("file:/a"), is_elsewhere("c:/a")
    (True, True, False, False)
    """
    text = os.fspath(source)
    family = _family(text)
    return family not in (None, "file") and (family != "dbfs" or _mounted(text) is None)


def spark_place(source: str | os.PathLike[str], what: str) -> str:
    """A path or URL that Spark itself is to write to, as its users write it; one that no file system has is refused.

    >>> spark_place("s3a://bucket/out/", "sink"), spark_place("file:///out", "sink"), spark_place("out", "sink")
    ('s3a://bucket/out', 'file:///out', 'out')
    >>> spark_place("https://host/out", "sink")
    Traceback (most recent call last):
    holdstrue.errors.HoldstrueError: the sink cannot be at https://, which is no file system of Spark: https://host/out
    hint: give a path, file:///, s3a://, gs://, abfss://, hdfs:// or dbfs:/
    """
    text = os.fspath(source)
    family = _family(text)
    if family is None or family == "file" or family in _STORES:
        return text.rstrip("/") or "/"
    raise HoldstrueError(
        f"the {what} cannot be at {family}://, which is no file system of Spark: {shown(text)}",
        hint="give a path, file:///, s3a://, gs://, abfss://, hdfs:// or dbfs:/",
    )


def _family(text: str) -> str | None:
    """What kind of place a URL names, by its scheme; None for a path."""
    found = _URL.match(text)
    if found is None:
        return None
    family = found[1].lower().split(":")[0].split("+")[0]
    known = family == "file" or family in _STORES | _WEB | _DATABASES
    return family if known or found[2] == "//" else None


DBFS = Path("/dbfs")
"""Where the machines of a Databricks cluster mount what `dbfs:/` names; volumes are mounted under their own path."""


def _mounted(text: str) -> str | None:
    """The path at which this machine has what a `dbfs:` URL names; None where nothing is mounted."""
    path = "/" + text.partition(":")[2].lstrip("/")
    if path.startswith("/Volumes/"):
        return path if Path("/Volumes").is_dir() else None
    return f"{DBFS}{path}" if DBFS.is_dir() else None


def nearby_hint(path: Path) -> str:
    """What a path that does not exist may have meant."""
    try:
        names = [file.name for file in path.parent.iterdir() if file.name != path.name]  # a link may lead nowhere
    except (OSError, ValueError):
        return f"there is no directory {str(path.parent)!r}"
    near = difflib.get_close_matches(path.name, names, n=1)
    if near:
        return f"did you mean {str(path.parent / near[0])!r}?"
    return f"check the path; it is looked for in {str(path.parent.absolute())!r}"


def _file(text: str, what: What) -> str:
    """The path of a `file:` URL, in the forms that browsers, Java and Spark write."""
    parts = urlsplit(text)
    if parts.netloc not in ("", "localhost"):
        raise _ERRORS[what](
            f"{text!r} names the machine {parts.netloc!r}",
            hint=f"a path of this machine is file:///path or {parts.path}",
        )
    # what follows ? or # is part of a file's name: `data#1.csv`
    path = text.split(":", 1)[1]
    if path.startswith("//"):
        path = path[2:].removeprefix("localhost")
    return unquote(path)


def _hint(text: str, family: str, what: What) -> str:
    if family == "dbfs":
        return f"{DBFS} is not mounted on this machine; give a path that is, or s3://, gs:// or abfss://"
    if what == "state":
        return "give a directory of this machine or of a file system mounted here, or s3://, s3a://, gs://, az:// or abfss://"
    if what == "output":
        return "write to a file on this machine and copy it there"
    if family in _WEB:
        name = text.rstrip("/").rsplit("/", 1)[-1].split("?")[0] or "file"
        return f"download it first (curl -L -o {name} '{text}') and give the file: {name}"
    if what == "rules":
        return "copy the file to this machine and give its path"
    if family in _DATABASES:
        return (
            "export the table to Parquet or CSV and give the file, or read it and pass the data frame: "
            "holdstrue.check(pandas.read_sql(query, connection), rules); on Spark: spark.read.jdbc(...)"
        )
    if family in _STORES:
        return (
            "copy it to this machine and give the path, or pass a pyarrow dataset: "
            f"holdstrue.check(pyarrow.dataset.dataset({text!r}), rules); on Spark pass a data frame"
        )
    return "copy it to this machine and give the path"
