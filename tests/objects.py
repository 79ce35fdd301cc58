"""S3 on loopback for tests: moto's server in its own process, and states in fresh buckets of it."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fault_proxy import FaultProxy

_SERVER = """
import logging, sys, threading
from moto.moto_server.threaded_moto_server import ThreadedMotoServer
from moto.s3.responses import S3Response

def one_by_one(respond, lock):
    def alone(*arguments, **options):
        with lock:
            return respond(*arguments, **options)
    return alone

lock = threading.RLock()
S3Response.key_response = one_by_one(S3Response.key_response, lock)
S3Response.bucket_response = one_by_one(S3Response.bucket_response, lock)
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
"""Ends when its standard input does, so with the process that started it.

moto looks whether an object exists and sets it later, without a lock: of 300 times eight threads that create one name,
two won ten times (when Python changes threads often). An S3 does not do that, so requests are answered one by one.
"""


@dataclass(frozen=True)
class Moto:
    """A running server."""

    port: int
    pid: int

    @property
    def url(self) -> str:
        """Its address, for AWS_ENDPOINT_URL."""
        return f"http://127.0.0.1:{self.port}"

    def make_bucket(self) -> str:
        """The name of a new bucket."""
        name = f"bucket-{uuid.uuid4().hex[:12]}"
        status, body = self.request("PUT", f"/{name}")
        assert status == 200, body
        return name

    def request(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Ask the server directly, past every client."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body=body, headers={"Authorization": _AUTHORIZATION})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


_AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=testing/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
)


def environment(address: str) -> dict[str, str]:
    """What a process needs to use S3 at an address; for processes that tests start."""
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": address,
        "NO_PROXY": "127.0.0.1",
    }


@pytest.fixture(scope="session")
def moto() -> Iterator[Moto]:
    """The server, one for each process of tests."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "MOTO_"))}
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=clean
    ) as server:
        assert server.stdin is not None and server.stdout is not None
        try:
            yield Moto(int(server.stdout.readline()), server.pid)
        finally:
            server.stdin.close()
            server.wait(timeout=30)


@pytest.fixture
def s3(moto: Moto, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """A URL for a state in a fresh bucket; the environment is set for it, with a cache of its own."""
    set_environment(monkeypatch, moto.url, tmp_path)
    return f"s3://{moto.make_bucket()}/orders/state"


@pytest.fixture
def proxy(moto: Moto, s3: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultProxy]:
    """Between clients of this process (and those it starts) and the server of `s3`."""
    with FaultProxy(moto.port) as between:
        monkeypatch.setenv("AWS_ENDPOINT_URL", between.url)
        yield between


def set_environment(monkeypatch: pytest.MonkeyPatch, address: str, folder: Path) -> None:
    """Let this process, and those it starts, use S3 at an address, with a cache in a folder."""
    for name in list(os.environ):
        if name.startswith(("AWS_", "HOLDSTRUE_CACHE")):
            monkeypatch.delenv(name)
    for name, value in environment(address).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOLDSTRUE_CACHE", str(folder / "cache"))
