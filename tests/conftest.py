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

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real data beside the repository, where there is one."""
    if not DATA.is_dir():
        pytest.skip("the real data sets are not beside this checkout (../shared/data)")
    return DATA
