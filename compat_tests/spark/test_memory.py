"""The memory measurement of a test run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from compat_tests.spark.memory import Peak, tree_bytes

HELD = 64 * 1024**2
PROGRAM = f"""
import os, sys
held = b"x" * {HELD}
os.fork()  # shares it
os.write(1, b"there\\n")
sys.stdin.read()
"""


@pytest.fixture
def held() -> Iterator[None]:
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == ["there\n"] * 2
        yield


def test_descendants_are_counted_and_shared_pages_once(request: pytest.FixtureRequest) -> None:
    me = psutil.Process()
    quick, exact = (tree_bytes(me, enough) for enough in (sys.maxsize, 0))
    request.getfixturevalue("held")
    assert tree_bytes(me, sys.maxsize) - quick > 2 * HELD
    assert HELD < tree_bytes(me, 0) - exact < 2 * HELD


def test_peak_is_kept(request: pytest.FixtureRequest) -> None:
    with Peak(sys.maxsize, every_s=0.001) as peak:
        request.getfixturevalue("held")
        before = psutil.Process().memory_info().rss
        while peak.bytes < before + HELD:  # pytest's timeout bounds this loop
            time.sleep(0.001)
