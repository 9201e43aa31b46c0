"""Test of the pictures of `benchmarks`: it is here because matplotlib is an extra of Spark's."""

from __future__ import annotations

import math
from pathlib import Path

from benchmarks import pictures
from benchmarks.comparison import Comparison
from benchmarks.growth import Growth
from kqueue.tests.test_benchmark_comparison import comparison, grown

PNG = b"\x89PNG"


def test_pictures_are_drawn_from_kept_figures(tmp_path: Path) -> None:
    comparison().save(tmp_path / "against.json")
    grown().conditions.load_after = math.inf
    grown().save(tmp_path / "growth.json")
    pictures.ratios(Comparison.load(tmp_path / "against.json"), tmp_path / "ratios.png")
    pictures.growth(Growth.load(tmp_path / "growth.json"), tmp_path / "growth.png")
    for name in ("ratios.png", "growth.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)
