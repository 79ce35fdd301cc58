"""Settings for all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

# the suite draws the same examples every time; scripts/soak looks for new ones
settings.register_profile("suite", max_examples=100, deadline=None, derandomize=True)
settings.register_profile("soak", max_examples=3000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

DATA = Path(__file__).parent / "data"
WHOLE_DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data; its README says where they come from."""
    return DATA


@pytest.fixture(scope="session")
def whole_data() -> Path:
    """The folder of the whole data sets, for soak runs; too large for the repository."""
    if not WHOLE_DATA.is_dir():
        pytest.skip(f"{WHOLE_DATA} is not there: tests/data/README.md names the data sets that it holds whole")
    return WHOLE_DATA
