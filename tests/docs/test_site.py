"""The site is built without a warning, loads nothing from elsewhere, and links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.pages import ROOT, page_name, pages
from docs.pictures import PICTURES, pictures

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
LONGEST_README = 120


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `scripts/docs build` does."""
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return target


def test_every_page_is_in_the_site(site: Path) -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        built = site / page.relative_to(ROOT / "docs").with_suffix(".html")
        assert built.is_file(), f"{page_name(page)} was not built"


def test_a_page_loads_nothing_from_elsewhere(site: Path) -> None:
    loaded = re.compile(r"""<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=["']?((?:https?:)?//[^"'\s>]+)""")
    for page in site.rglob("*.html"):
        found = loaded.findall(page.read_text(encoding="utf-8"))
        assert not found, f"{page.name} loads {found}"


def _anchors(page: Path) -> set[str]:
    heads = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", head).strip().lower()) for head in heads}


OUTSIDE = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "benchmarks/README.md")]


@pytest.mark.parametrize("page", [*OUTSIDE, *pages()[1:]], ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in LINK.findall(re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page_name(page)}: {target} is not there"
        assert not anchor or anchor in _anchors(file), f"{page_name(page)}: {target} has no such heading"


def test_the_readme_is_short() -> None:
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) < LONGEST_README


def test_pictures_show_what_the_commands_print() -> None:
    drawn = pictures()
    assert {path.name for path in PICTURES.glob("*.svg")} >= set(drawn)
    for name, text in drawn.items():
        assert (PICTURES / name).read_text(encoding="utf-8") == text, (
            f"{name} is old: scripts/docs images draws it anew"
        )
