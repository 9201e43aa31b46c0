"""The cache of compiled code: a later process uses it, unless a source file of the code changed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

np = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")

pytestmark = pytest.mark.timeout(300)  # the first run compiles

INNER = "from kqueue.records.jit import compiled\n@compiled\ndef inner(x):\n    return x + {}\n"
OUTER = (
    "from kqueue.records.jit import compiled\nfrom inner import inner\n@compiled\ndef outer(x):\n    return inner(x)\n"
)
TOP = "from kqueue.records.jit import compiled\nfrom outer import outer\n@compiled\ndef top(x):\n    return outer(x)\n"
ASK = "from top import top; print(top(1), sum(top.stats.cache_hits.values()))"


@pytest.mark.thorough
def test_changed_callee_recompiles_its_callers(tmp_path: Path) -> None:
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
