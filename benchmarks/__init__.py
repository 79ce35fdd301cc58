"""Benchmarks. This folder is an import root: `python -m benchmarks.run` finds what `python benchmarks/run.py` does."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
