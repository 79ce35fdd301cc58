"""The lock holds what pyproject.toml asks for, in versions that it allows, with the hashes of their files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]


def locked() -> dict[str, set[str]]:
    """Versions by name; more than one where Pythons or platforms differ."""
    found: dict[str, set[str]] = {}
    for entry in re.split(r"\n(?=\w)", (ROOT / "requirements.lock").read_text()):
        if entry.startswith("#"):
            continue
        requirement = Requirement(entry.partition("\\")[0])
        assert re.search(r"--hash=sha256:[0-9a-f]{64}\b", entry), entry
        [version] = requirement.specifier
        assert version.operator == "=="
        found.setdefault(canonicalize_name(requirement.name), set()).add(version.version)
    return found


def test_everything_is_locked_as_it_is_asked_for() -> None:
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project, build = asked["project"], asked["build-system"]["requires"]
    extras = project["optional-dependencies"]
    versions = locked()
    for requirement in map(Requirement, [*project["dependencies"], *extras["dev"], *extras["spark"], *build]):
        some = versions.get(canonicalize_name(requirement.name), set())
        assert some and all(map(requirement.specifier.contains, some)), f"scripts/lock: {requirement}"
