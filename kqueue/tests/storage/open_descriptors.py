"""Counts the descriptors of this process below a folder."""

from __future__ import annotations

from pathlib import Path

import pytest


def open_descriptors(root: Path) -> int:
    """Return how many descriptors of this process point below `root`, memory maps included."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        try:
            count += str(link.readlink()).startswith(str(root))
        except FileNotFoundError:
            continue
    return count


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
