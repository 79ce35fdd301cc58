"""Three companies check their price lists against each other, and nobody sees another's rows.

Each company runs a process of its own (`holdstrue site serve`). South adds a washer of another maker than the washers of
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
    """Wait until a company's site answers."""
    words = [sys.executable, "-m", "holdstrue", "site", "status", str(file), "--name", company]
    for _ in range(120):
        if subprocess.run(words, check=False, capture_output=True).returncode == 0:
            return
        time.sleep(0.5)
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
            for name in COMPANIES:
                print(f"{name} asks:", holdstrue("site", "violations", str(file), "--name", name), sep="\n")
        finally:
            for site in sites:
                site.terminate()
            for site in sites:
                site.wait()


if __name__ == "__main__":
    main()
