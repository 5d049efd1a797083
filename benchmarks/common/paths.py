"""Directories of the repository that benchmarks read and write."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS_DIR = ROOT / "benchmarks" / "results"
DOCS = ROOT / "docs"
IMAGES = DOCS / "images"
