"""Driver and workers that share no folder: each has its own disk, cache, and credentials for the store."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fault_proxy import Drop, FaultProxy
from objects import Moto
from spark import faulty
from spark.clusters import standalone
from spark.hosts import PREFIX, Host, cut_off, hidden, made, network
from spark.scenarios import Scenario

NETWORK = os.environ.get("HOLDSTRUE_NETWORK", "")
"""Whether hosts may be put into network namespaces of their own, for which one must be root: scripts/apart sets it."""


@contextlib.contextmanager
def hosts(folder: Path, apart: str) -> Iterator[list[Host]]:
    """A driver's machine, two others, and one that takes the place of one of these."""
    names = ("DRIVER", "FIRST", "SECOND", "THIRD")
    within = hidden(folder / names[0])
    if apart == "by folders":
        yield [made(name, folder, within=within if name != names[0] else ()) for name in names]
        return
    with network(3) as spaces:
        driver = made(names[0], folder, f"{PREFIX}.1")
        others = [
            made(name, folder, f"{PREFIX}.{11 + number}", ("ip", "netns", "exec", space, *within))
            for number, (name, space) in enumerate(zip(names[1:], spaces))
        ]
        yield [driver, *others]


@pytest.mark.parametrize("apart", ["by folders", "by network"])
def test_workers_share_nothing_with_the_driver(
    moto: Moto, scenario: Callable[..., Scenario], tmp_path: Path, apart: str
) -> None:
    """Three batches with two workers; then one is lost, and another that has nothing takes its place."""
    if apart == "by network" and not NETWORK:
        pytest.skip("HOLDSTRUE_NETWORK=1 (scripts/apart) puts hosts into network namespaces, as root")
    go = tmp_path / "go"
    with (
        hosts(tmp_path / "hosts", apart) as (driver, first, second, third),
        FaultProxy(moto.port, host=driver.address) as store,
        standalone(workers=0, host=driver.address) as cluster,
    ):
        for host in (first, second):
            host.join(cluster, store.url)
        env = {**driver.env(store.url), "PYSPARK_PYTHON": sys.executable}
        url = f"s3://{moto.make_bucket()}/state"
        ran = scenario("apart", url, cluster.url, driver.address, go, **env)
        ran.wait_until(lambda: len(ran.said()) == 3)
        assert driver.copies() and first.copies() and second.copies(), "all have read or written"
        if first.within:
            seen = subprocess.run([*first.within, "ls", driver.folder], check=True, capture_output=True, text=True)
            assert not seen.stdout, "the driver's folders are not there for workers"
        cluster.kill_worker(1)
        had = second.copies()
        third.join(cluster, store.url)
        assert not third.copies()
        go.touch()
        lines = ran.end()
        assert set(third.copies()) & set(had), "the new one has fetched what the lost one had"
        assert second.copies() == had
    for line in lines:
        truth = faulty.truth(line["batch"] + 1)
        assert line["told"] == line["standing"] == faulty.wanted(line["batch"] + 1)
        assert line["counts"] == {rule: len(some) for rule, some in truth.items()}
    assert [line["batch"] for line in lines] == list(range(5))
    # each asks for itself
    headers = [{name.lower(): value for name, value in one.headers.items()} for one in store.requests]
    asked = {found[1] for one in headers if (found := re.search(r"Credential=(\w+)/", one.get("authorization", "")))}
    assert asked == {"DRIVER", "FIRST", "SECOND", "THIRD"}


def test_harm_among_hosts(moto: Moto, scenario: Callable[..., Scenario], tmp_path: Path) -> None:
    """In the middle of batches a host is lost, one cut off, the store out of reach, the driver killed: all is once.

    Tasks are copied where they are slow, and executors come and go as there is work.
    """
    if not NETWORK:
        pytest.skip("HOLDSTRUE_NETWORK=1 (scripts/apart) puts hosts into network namespaces, as root")
    batches = 8
    with (
        hosts(tmp_path / "hosts", "by network") as (driver, *others),
        FaultProxy(moto.port, host=driver.address) as store,
        standalone(workers=0, host=driver.address) as cluster,
    ):
        for host in others:
            host.join(cluster, store.url)
        env = {**driver.env(store.url), "PYSPARK_PYTHON": sys.executable}
        url = f"s3://{moto.make_bucket()}/state"

        def run() -> Scenario:
            return scenario("harmed", url, cluster.url, driver.address, batches, **env)

        def in_the_middle_of(number: int) -> None:
            ran.wait_until(lambda: {"starts": number} in ran.said())
            time.sleep(0.5)

        ran = run()
        in_the_middle_of(1)
        cluster.kill_worker(0)
        in_the_middle_of(2)
        with cut_off(others[1].within[3]):
            ran.wait_until(lambda: any(line.get("batch") == 2 for line in ran.said()))
        in_the_middle_of(4)
        store.plan({request: Drop(before=True) for request in range(1, 10_000)})
        time.sleep(3)
        store.plan()
        in_the_middle_of(6)
        os.killpg(ran.popen.pid, signal.SIGKILL)
        ran.popen.wait()
        had = [line["batch"] for line in ran.said() if "batch" in line]
        ran = run()
        lines = ran.end()
    assert had == list(range(6)), "each was committed once, whatever was lost"
    again = {line["batch"]: line["duplicate"] for line in lines if "batch" in line}
    assert list(again) == list(range(batches)) and all(again[number] for number in had)
    # of the one that was at work when the driver was killed both is right, and no later one was there before
    assert not again[batches - 1]
    assert lines[-1]["standing"] == faulty.wanted(batches)
