"""Three companies check their price lists against each other, and nobody sees another's rows.

Each company runs a process of its own (`holdstrue site serve`). South adds a washer of another maker than those of
north and coast: each is told that its own row is wrong, by its own site, and how many rows of others are.

    python examples/three_companies/run.py
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).parent
COMPANIES = ("north", "south", "coast")


def copied(folder: Path) -> Path:
    """The files in a folder of our own, with ports that are free."""
    shutil.copytree(HERE, folder, dirs_exist_ok=True)
    file = folder / "prices.yaml"
    text = file.read_text()
    for port in ("7401", "7402", "7403"):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{free.getsockname()[1]}")
    file.write_text(text)
    return file


def holdstrue(*words: str) -> str:
    """What a command prints."""
    done = subprocess.run([sys.executable, "-m", "holdstrue", *words], check=False, capture_output=True, text=True)
    if done.returncode > 1:
        raise SystemExit(done.stderr)
    return done.stdout


def wait_for(file: Path, company: str) -> None:
    """Wait until a company's site listens."""
    line = next(line for line in file.read_text().splitlines() if f"name: {company}," in line)
    port = int(line.rpartition(":")[2].rstrip('"}'))
    for _ in range(600):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit(f"the site of {company} does not answer")


def main() -> None:
    """Start three sites, load them, apply south's Monday, ask each company."""
    with tempfile.TemporaryDirectory() as folder:
        file = copied(Path(folder))
        words = [sys.executable, "-m", "holdstrue", "site", "serve", str(file), "--name"]
        sites = [subprocess.Popen([*words, name], stdout=subprocess.DEVNULL) for name in COMPANIES]
        try:
            for name in COMPANIES:
                wait_for(file, name)
            print("north loads:", holdstrue("site", "load", str(file), "--name", "north"), sep="\n")
            monday = str(file.parent / "monday_south.csv")
            applied = holdstrue("site", "apply", str(file), monday, "--name", "south", "--batch-id", "monday")
            print("south applies its Monday:", applied, sep="\n")
            assert "one maker: +1 -0\n  + S3" in applied
            asked = holdstrue("site", "violations", str(file), "--name", "coast")
            print("coast asks:", asked, sep="\n")
            assert "C2" in asked and "S3" not in asked and "one maker: 1 row at north" in asked
        finally:
            for site in sites:
                site.terminate()
            for site in sites:
                site.wait()


if __name__ == "__main__":
    main()
