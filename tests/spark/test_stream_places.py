"""Where states, sinks and checkpoints lie, as Spark's users write it. No session is needed for that."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.spark.sinks import Parquet, batch_folder
from holdstrue.spark.stream import stream_place
from holdstrue.state.store import fixed_place

STATES = ("s3://b/x", "s3a://b/x", "gs://b/x", "abfss://files@acme.dfs.core.windows.net/x")
WRITTEN_BY_SPARK = (*STATES, "hdfs://node/x", "dbfs:/x")


def test_states(tmp_path: Path) -> None:
    for url in STATES:
        assert fixed_place(url) == fixed_place(url + "/") == url
    assert fixed_place(tmp_path.as_uri()) == fixed_place(tmp_path) == str(tmp_path)
    for url in ("hdfs://node/x", "viewfs://c/x", "ftp://h/x", "unheard-of://x"):
        with pytest.raises(HoldstrueError, match=url.split("/")[0]):
            fixed_place(url)


def test_sinks_and_checkpoints(tmp_path: Path) -> None:
    for url in WRITTEN_BY_SPARK:
        assert batch_folder(url, "a b") == f"{url}/batch=a-b"
        assert stream_place("/state", "s", url + "/") == url
        with pytest.raises(HoldstrueError, match="change files keeps their order"):
            stream_place("/state", "s", url, files=True)
    assert stream_place("/state", "s", tmp_path.as_uri()) == stream_place("/state", "s", tmp_path) == str(tmp_path)
    assert stream_place("/state", "s", None) == "/state/streams/s"
    assert batch_folder(tmp_path, "a") == f"{tmp_path}/batch=a"
    for url in ("https://h/x", "postgresql://h/x", "unheard-of://x"):
        for place in (lambda url=url: Parquet(url), lambda url=url: stream_place("/state", "s", url)):
            with pytest.raises(HoldstrueError, match=url.split("/")[0]):
                place()
