"""Settings of object stores that cannot be are named, never repeated where they may be secret, and nothing panics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from holdstrue.errors import StateError
from holdstrue.state.object_client import Clients
from holdstrue.state.objects import ObjectStore
from holdstrue.state.store import UnsureError
from unit.cli.runs import process

KEYS = {"AWS_ACCESS_KEY_ID": "KEYOFMINE", "AWS_SECRET_ACCESS_KEY": "HUSH"}
NOBODY = "http://127.0.0.1:1"

WRONG: list[tuple[Mapping[str, str], str]] = [
    ({"AWS_ENDPOINT_URL": "not-a-url", **KEYS}, "AWS_ENDPOINT_URL is 'not-a-url', which is no address"),
    ({"AWS_ENDPOINT_URL": "http://", **KEYS}, "AWS_ENDPOINT_URL is 'http://', which is no address"),
    ({"AWS_ENDPOINT_URL": "http://127.0.0.1:99999", **KEYS}, "which is no address"),
    ({"AWS_ENDPOINT_URL": "http://[", **KEYS}, "AWS_ENDPOINT_URL is 'http://[', which is no address"),
    ({"AWS_ENDPOINT_URL": "ftp://u:HUSH@127.0.0.1", **KEYS}, "AWS_ENDPOINT_URL is something with '@' or '?'"),
    ({"AWS_ENDPOINT_URL": NOBODY + "\n", **KEYS}, "AWS_ENDPOINT_URL holds a line break"),
    ({**KEYS, "AWS_ACCESS_KEY_ID": "KEYOFMINE\nx"}, "AWS_ACCESS_KEY_ID holds a line break"),
    ({**KEYS, "AWS_ACCESS_KEY_ID": "KEYOFMINÉ"}, "AWS_ACCESS_KEY_ID holds a line break or another character"),
    ({**KEYS, "AWS_SECRET_ACCESS_KEY": "HUSH\n"}, "AWS_SECRET_ACCESS_KEY holds a line break"),
    ({**KEYS, "AWS_SESSION_TOKEN": "HUSH\r"}, "AWS_SESSION_TOKEN holds a line break"),
    ({**KEYS, "AWS_REGION": "eu\nwest"}, "AWS_REGION holds a line break"),
    ({"AWS_ACCESS_KEY_ID": "KEYOFMINE"}, "AWS_ACCESS_KEY_ID is set and AWS_SECRET_ACCESS_KEY is not"),
    ({"AWS_SECRET_ACCESS_KEY": "HUSH"}, "AWS_SECRET_ACCESS_KEY is set and AWS_ACCESS_KEY_ID is not"),
]


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No setting of a store but an address where nobody is."""
    for name in (*KEYS, "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/nonexistent")
    monkeypatch.setenv("AWS_ENDPOINT_URL", NOBODY)


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(("settings", "words"), WRONG)
def test_a_setting_that_cannot_be_is_named(
    settings: Mapping[str, str], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for writing in (False, True):
        store = ObjectStore("s3://bucket/state")
        with pytest.raises(StateError) as told:
            store.create("log/000000000000", b"x") if writing else store.list("")
        assert words in told.value.message
        assert "HUSH" not in str(told.value) and "KEYOFMINE" not in str(told.value)
        assert not isinstance(told.value, UnsureError)


@pytest.mark.usefixtures("bare")
def test_a_command_ends_with_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    result = process("status", "s3://bucket/state", **KEYS, AWS_ENDPOINT_URL="not-a-url")
    assert result.returncode == 2
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["error", "hint"]


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(("writing", "kind"), [(False, StateError), (True, UnsureError)])
def test_a_panic_is_an_error_of_ours(writing: bool, kind: type[StateError], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of settings that nobody thought of; what it says is not repeated."""

    class PanicException(BaseException):
        """As pyo3 raises it."""

    def panic(*_: Any) -> Any:
        raise PanicException("HUSH")

    monkeypatch.setattr(Clients, "get", panic)
    store = ObjectStore("s3://bucket/state")
    with pytest.raises(kind, match="obstore failed inside") as told:
        store.create("log/000000000000", b"x") if writing else store.list("")
    assert "HUSH" not in str(told.value)
