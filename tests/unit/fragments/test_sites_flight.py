"""Sites over Arrow Flight on loopback: what is on the wire, who is let in, a wire that is cut and mended."""

from __future__ import annotations

import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdstrue.errors import HoldstrueError
from holdstrue.fragments import flight
from holdstrue.fragments.apart_relation import ApartDelta
from holdstrue.fragments.declaration import Declaration
from holdstrue.fragments.flight import Credentials, Wires, parted, served
from holdstrue.fragments.fragment_layout import Site
from holdstrue.fragments.frames import UnreachableError, framed
from holdstrue.fragments.remote_host import called
from holdstrue.fragments.site_service import SiteService
from holdstrue.rules.file import load_rules
from holdstrue.shards.wire import pack
from holdstrue.sources.feeds import read_changes

NAMES = ("s0", "s1")
OPEN = Credentials()


class Proxy:
    """Between sites: keeps every byte that passes, and can be cut."""

    def __init__(self) -> None:
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        self.target = 0
        self.cut = False
        self.passed = bytearray()
        self.watched: Callable[[bytes], None] = lambda _: None
        self.open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self.server.accept()
            except OSError:
                return
            if self.cut:
                near.close()
                continue
            try:
                far = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                near.close()  # the site is down: whoever calls it must hear so, now and when it is back
                continue
            self.open += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while data := source.recv(1 << 16):
                if self.cut:
                    break
                self.watched(data)
                self.passed += data
                sink.sendall(data)
        except OSError:
            pass  # the other end has closed
        for end in (source, sink):
            end.close()

    def sever(self) -> None:
        self.cut = True
        for end in self.open:
            end.close()
        self.open.clear()

    def close(self) -> None:
        self.server.close()
        self.sever()


@contextmanager
def running(folder: Path, credentials: Credentials = OPEN) -> Iterator[dict[str, Any]]:
    """Two companies' sites, each behind a proxy of its own."""
    sites = tuple(
        Site(
            name,
            where=f"company = '{name}'",
            source=pa.table({"id": [f"key-{name}"], "company": [name], "a": ["canary-a"], "b": [f"canary-{name}"]}),
            state=folder / name,
        )
        for name in NAMES
    )
    proxies = {name: Proxy() for name in NAMES}
    addresses = {name: f"127.0.0.1:{proxy.port}" for name, proxy in proxies.items()}
    declared = Declaration(sites, load_rules(["a -> b", "a, b -> company"]), ("id",), addresses=addresses)
    with ExitStack() as stack:
        straight = {}
        for name in NAMES:
            make = partial(SiteService, declared, name, lease=0.0, patience=0.5)
            server, service, wires = served(make, addresses, "127.0.0.1:0", credentials)
            threading.Thread(target=server.serve, daemon=True).start()
            proxies[name].target = server.port
            straight[name] = f"127.0.0.1:{server.port}"
            for end in (wires.close, service.close, server.shutdown, proxies[name].close):
                stack.callback(end)
        # people are at the site itself, not beyond a proxy
        wires = Wires(straight, credentials)
        stack.callback(wires.close)

        def ask(name: str, verb: str, body: bytes = b"", **fields: Any) -> Any:
            head, found = called(wires.carry, name, framed({"verb": verb, **fields}, body), 0.0)
            if head["kind"] == "delta":
                return ApartDelta.of(head, pa.ipc.open_stream(pa.BufferReader(found)).read_all())
            return head["answer"]

        yield {"ask": ask, "proxies": proxies, "straight": straight}


def offered(ask: Any, key: str, b: str) -> None:
    table = pa.table({"op": ["i"], "id": [key], "company": ["s1"], "a": ["canary-n"], "b": [b]})
    read = read_changes(table, key=("id",))
    ask("s1", "offer", pack(read.rows.append_column(":op", pa.array(read.ops))).to_pybytes(), batch=key)


def test_no_value_is_on_the_wire_and_a_cut_is_mended(tmp_path: Path) -> None:
    with running(tmp_path) as world:
        ask, proxies = world["ask"], world["proxies"]
        loaded = ask("s0", "load")
        assert loaded.added_keys("a -> b") == {"key-s0"} and loaded.elsewhere == {"s1": {"a -> b": [1, 0]}}
        offered(ask, "n1", "canary-x")
        proxies["s0"].sever()
        with pytest.raises(UnreachableError, match="site 's0'"):
            ask("s1", "apply", batch="n1")
        proxies["s0"].cut = False
        assert not ask("s1", "apply", batch="n1").repeated
        offered(ask, "n2", "canary-y")
        assert ask("s1", "apply", batch="n2").added_keys("a -> b") == {"n1", "n2"}
        assert ask("s0", "apply", batch="n2").repeated
        assert ask("s0", "violations of all").added_keys("a -> b") == {"key-s0"}
        assert ask("s1", "status")["last"] == "n2"
        said = b"".join(bytes(proxy.passed) for proxy in proxies.values())
        assert len(said) > 10_000 and b"announce" in said and b"canary" not in said and b"key-s" not in said


def test_who_does_not_know_the_token_is_not_let_in(tmp_path: Path) -> None:
    with running(tmp_path, Credentials(token="open sesame")) as world:
        assert world["ask"]("s0", "load").added_keys("a -> b") == {"key-s0"}
        for wrong in (Credentials(), Credentials(token="open barley")):
            wires = Wires(world["straight"], wrong)
            with pytest.raises(HoldstrueError, match="does not let this one in"):
                wires.carry("s0", framed({"verb": "status"}))
            wires.close()


@pytest.mark.parametrize(("token", "said"), [
    ("", "is empty"), (" ", "is empty"), ("geh\u00e9im", "cannot be sent"), ("a\nb", "cannot be sent"),
    ("a ", "cannot be sent"),
])  # fmt: skip
def test_a_token_that_keeps_nobody_out_or_lets_nobody_in(token: str, said: str) -> None:
    with pytest.raises(HoldstrueError, match=said):
        Credentials(token=token)


def certificates(folder: Path, name: str) -> dict[str, str]:
    """An authority of its own and a certificate that it signed."""

    def run(*words: str) -> None:
        subprocess.run(["openssl", *words], check=True, capture_output=True, cwd=folder)

    ca, key, cert = f"{name}.ca.pem", f"{name}.key", f"{name}.pem"
    made = ("-newkey", "rsa:2048", "-nodes", "-keyout")
    run("req", "-x509", *made, f"{name}.ca.key", "-out", ca, "-subj", f"/CN={name}", "-days", "2")
    run("req", *made, key, "-out", f"{name}.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    run("x509", "-req", "-in", f"{name}.csr", "-CA", ca, "-CAkey", f"{name}.ca.key", "-CAcreateserial", "-out", cert,
        "-days", "2", "-extfile", "names")  # fmt: skip
    paths = {"certificate": cert, "key": key, "authority": ca}
    return {field: str(folder / file) for field, file in paths.items()}


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_both_sides_show_certificates(tmp_path: Path) -> None:
    ours, theirs = certificates(tmp_path, "ours"), certificates(tmp_path, "theirs")
    with running(tmp_path, Credentials(**ours)) as world:
        assert world["ask"]("s0", "load").added_keys("a -> b") == {"key-s0"}
        # who trusts our authority but shows another's certificate, or none, hears nothing
        for stranger in (Credentials(**{**theirs, "authority": ours["authority"]}), Credentials()):
            wires = Wires(world["straight"], stranger, timeout=5.0)
            with pytest.raises(UnreachableError) as refused:
                wires.carry("s0", framed({"verb": "status"}))
            assert stranger.tls or "both sides must use TLS or neither" in str(refused.value)
            wires.close()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificates")
def test_certificates_that_do_not_fit_are_refused_before_anybody_is_called(tmp_path: Path) -> None:
    ours, theirs = certificates(tmp_path, "ours"), certificates(tmp_path, "theirs")
    with pytest.raises(HoldstrueError, match="cannot be used: key values mismatch"):
        Credentials(**{**ours, "key": theirs["key"]})
    with pytest.raises(HoldstrueError, match=r"the certificate .* cannot be used"):
        Credentials(**{**ours, "certificate": ours["key"]})
    with pytest.raises(HoldstrueError, match=r"the authority .* cannot be used"):
        Credentials(**{**ours, "authority": ours["key"]})
    with pytest.raises(HoldstrueError, match="cannot read the authority"):
        Credentials(**{**ours, "authority": str(tmp_path / "none.pem")})


def test_long_answers_come_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of few bytes here, so that every answer is cut; what is too long to be said is refused by name."""
    monkeypatch.setattr(flight, "PIECE", 7)
    with running(tmp_path) as world:
        assert world["ask"]("s0", "load").added_keys("a -> b") == {"key-s0"}
        for key, b in (("n1", "canary-x"), ("n2", "canary-y")):
            offered(world["ask"], key, b)
            delta = world["ask"]("s1", "apply", batch=key)
        assert delta.added_keys("a -> b") == {"n1", "n2"}
        monkeypatch.setattr(flight, "MOST_BYTES", 100)
        with pytest.raises(HoldstrueError, match="at most 100 go at once"):
            offered(world["ask"], "n3", "canary-x")


@pytest.mark.parametrize("address", ["nowhere", ":7001", "host:port", "host:70000"])
def test_addresses(address: str) -> None:
    with pytest.raises(HoldstrueError, match="is not an address"):
        parted(address)


def test_others_are_asked_who_they_are(tmp_path: Path) -> None:
    site = Site("s0", source=pa.table({"id": [1], "a": [1], "b": [2]}), state=tmp_path / "s0")
    declared = Declaration((site,), load_rules(["a -> b"]), ("id",))
    with pytest.raises(HoldstrueError, match="nobody is asked who they are"):
        served(partial(SiteService, declared, "s0"), {}, "0.0.0.0:0", Credentials())
    with pytest.raises(HoldstrueError, match="missing: authority"):
        Credentials(certificate="c.pem", key="c.key")
    with pytest.raises(HoldstrueError, match="no state directory on this machine"):
        SiteService(replace(declared, sites=(replace(site, state=None),)), "s0", lambda *_: b"")
