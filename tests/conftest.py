"""Settings for all tests."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from browser.chromium import browser, opened
from database import postgres
from objects import moto, proxy, s3
from places import buckets, folders, place, places

__all__ = ["browser", "buckets", "folders", "moto", "opened", "place", "places", "postgres", "proxy", "s3"]

# the suite draws the same examples every time; scripts/soak looks for new ones
settings.register_profile("suite", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=3000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# pytest imports a test file by its name alone: of two with one name the second fails after all others have run
_NAMES = Counter(path.name for path in Path(__file__).parent.rglob("test_*.py"))
if _TWICE := sorted(name for name, times in _NAMES.items() if times > 1):
    raise pytest.UsageError(f"test files need names of their own, and these have two: {', '.join(_TWICE)}")

WHOLE_DATA = Path(os.environ.get("HOLDSTRUE_DATA", Path(__file__).parents[2] / "shared" / "data"))
"""Public tables beside the checkout, which the project does not ship; HOLDSTRUE_DATA names another place."""


@pytest.fixture(scope="session")
def whole_data() -> Path:
    """The folder of the public tables, for tests of published answers; `lookalikes` makes what other tests need."""
    if not WHOLE_DATA.is_dir():
        pytest.skip(f"the public data sets are not there ({WHOLE_DATA}): the same questions are asked of lookalikes")
    return WHOLE_DATA
