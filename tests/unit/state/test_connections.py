"""Connections to object stores: kept for whoever opens a state again, and given up when they are of no use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fault_proxy import Answer, FaultProxy
from holdstrue.errors import StateError
from holdstrue.state import object_client
from holdstrue.state.object_client import Clients
from holdstrue.state.object_url import ObjectUrl
from holdstrue.state.objects import ObjectStore


def test_stores_of_one_place_share_connections(s3: str, proxy: FaultProxy) -> None:
    for number in range(10):
        store = ObjectStore(s3)
        store.create(f"log/{number:012d}", b"x")
        assert store.read(f"log/{number:012d}") == b"x"
    assert len(proxy.requests) == 20
    # creating and reading have each their own; a client that is in doubt about one opens another
    assert proxy.connections <= 5


def test_what_the_environment_says_now_counts(s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    ObjectStore(s3).create("log/1", b"x")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ANOTHER")
    ObjectStore(s3).read("log/1")
    used = [{name.lower(): value for name, value in one.headers.items()}["authorization"] for one in proxy.requests]
    assert ["Credential=testing/" in used[0], "Credential=ANOTHER/" in used[-1]] == [True, True]
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(StateError, match="cannot be reached"):
        ObjectStore(s3).create("log/2", b"x")


def test_who_is_refused_looks_for_credentials_again(
    s3: str, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Those in files may have been changed since they were read."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "secrets"))

    def profile(key: str) -> None:
        text = f"[default]\naws_access_key_id = {key}\naws_secret_access_key = s\n"
        (tmp_path / "secrets").write_text(text)

    profile("FIRST")
    store = ObjectStore(s3)
    store.create("log/1", b"x")
    profile("SECOND")
    assert store.read("log/1") == b"x"
    proxy.plan({1: Answer(403)})
    with pytest.raises(StateError, match="access is denied"):
        ObjectStore(s3).read("log/1")
    profile("THIRD")
    ObjectStore(s3).read("log/1")
    used = {name.lower(): value for name, value in proxy.requests[-1].headers.items()}["authorization"]
    assert "Credential=THIRD/" in used


def test_few_places_are_kept_and_none_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    place = ObjectUrl.of("s3://bucket/state")
    first = Clients.at(place)
    assert Clients.at(ObjectUrl.of("s3://bucket/state")) is first
    monkeypatch.setattr(object_client, "KEPT_SECONDS", 0.0)
    second = Clients.at(place)
    assert second is not first
    monkeypatch.undo()
    for number in range(object_client.MOST_KEPT):
        Clients.at(ObjectUrl.of(f"s3://bucket/{number}"))
    assert Clients.at(place) is not second
    assert len(object_client._KEPT) == object_client.MOST_KEPT


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_has_connections_of_its_own(s3: str, proxy: FaultProxy) -> None:
    """It finds the place among those kept, and none of the parent's connections."""
    ObjectStore(s3).create("log/1", b"x")
    assert ObjectStore(s3).read("log/1") == b"x"
    before = proxy.connections
    with object_client._KEPT_LOCK:  # as another thread might hold it
        child = os.fork()
    if child == 0:
        try:
            ObjectStore(s3).read("log/1")
            ObjectStore(s3).read("log/1")
        except BaseException:  # noqa: BLE001
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert (len(proxy.requests), proxy.connections > before) == (4, True)
    # whether the parent goes on with its connection is up to the client, which waits for none
    assert ObjectStore(s3).read("log/1") == b"x"
    assert len(proxy.requests) == 5
