"""Open shards of workers that nobody limits, on a machine whose memory ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdstrue.shards import memory


def told(folder: Path, available: int, limit: str = "max", used: int = 0, cached: int = 0) -> Path:
    (folder / "meminfo").write_text(f"MemTotal:  99 kB\nMemAvailable:  {available >> 10} kB\n")
    (folder / "memory.max").write_text(f"{limit}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"anon 7\ninactive_file {cached}\n")
    return folder


def test_what_is_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_MEMORY", tmp_path / "meminfo")
    monkeypatch.setattr(memory, "_CONTAINER", tmp_path)
    monkeypatch.setattr(memory, "machine_bytes", lambda: 8 << 30)
    assert memory.available_bytes() == 8 << 30, "where the system tells nothing"
    told(tmp_path, 2 << 30)
    assert memory.available_bytes() == 2 << 30
    assert not memory.is_scarce()
    told(tmp_path, (1 << 30) - 4096)
    assert memory.is_scarce()
    told(tmp_path, 7 << 30, str(4 << 30), used=3 << 30, cached=1 << 29)
    assert memory.available_bytes() == 3 << 29
