"""Kept machine code is found by the next process, and not when a file has changed that it was made
of.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.records import varints
from kqueue.records.varints import encode, unzigzag

np = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.records import jit  # noqa: E402

pytestmark = pytest.mark.timeout(300)  # the first run compiles

INNER = "from kqueue.records.jit import compiled\n@compiled\ndef inner(x):\n    return x + {}\n"
OUTER = (
    "from kqueue.records.jit import compiled\nfrom inner import inner\n@compiled\ndef outer(x):\n    return inner(x)\n"
)
TOP = "from kqueue.records.jit import compiled\nfrom outer import outer\n@compiled\ndef top(x):\n    return outer(x)\n"
ASK = "from top import top; print(top(1), sum(top.stats.cache_hits.values()))"


def test_a_change_of_what_is_called_is_noticed(tmp_path: Path) -> None:
    """numba by itself looks at the file of the outermost function only."""
    for name, text in (("inner", INNER.format(10)), ("outer", OUTER), ("top", TOP)):
        (tmp_path / f"{name}.py").write_text(text)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    env.pop("NUMBA_CACHE_DIR", None)

    def ask() -> list[int]:
        run = subprocess.run(
            [sys.executable, "-c", ASK], env=env, capture_output=True, text=True, timeout=120, check=True
        )
        return list(map(int, run.stdout.split()))

    assert ask() == [11, 0]
    assert ask() == [11, 1]
    (tmp_path / "inner.py").write_text(INNER.format(200))
    assert ask() == [201, 0]
    assert ask() == [201, 1]


@pytest.mark.parametrize("number", [0, 1, -1, 63, -64, 64, 2**31 - 1, -(2**31), 2**31, 2**63 - 1, -(2**63)])
def test_numbers_are_read_as_the_plain_way_reads_them(number: int) -> None:
    data = np.frombuffer(b"\xff" + encode(number) + b"\xff", np.uint8)
    end = len(data) - 1
    assert jit.read_varlong(data, 1, end) == (number, end)
    assert jit.read_varlong(data, 1, end - 1)[1] == jit.WRONG
    raw, after = jit.read_varint(data, 1, end)
    if -(2**31) <= number < 2**31:
        assert (unzigzag(raw), after) == (number, end)
        assert varints.read_raw(data.tobytes(), 1, 32) == (raw, end)
    else:
        assert after == jit.WRONG


def test_bytes_are_copied_and_no_more() -> None:
    target = np.zeros(10, np.uint8)
    jit.copy_bytes(np.frombuffer(b"abcdef", np.uint8), 1, 3, target, 4)
    jit.copy_bytes(np.frombuffer(b"abcdef", np.uint8), 6, 0, target, 10)
    assert target.tobytes() == bytes(4) + b"bcd" + bytes(3)
