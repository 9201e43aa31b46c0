"""The choice of the implementation of the hot loops."""

from __future__ import annotations

import sys

import pytest

from kqueue.base.errors import PluginError
from kqueue.log.compaction.engine import FAST, PYTHON, select_engine


def test_the_python_engine_is_always_available() -> None:
    assert select_engine("python") is PYTHON
    assert select_engine("auto").name in ("python", "fast")


def test_without_numba_the_python_engine_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, FAST, None)  # importing it raises ImportError
    assert select_engine("auto") is PYTHON
    with pytest.raises(PluginError, match=r"'fast' needs the extra 'fast' .*pip install '\.\[fast\]'"):
        select_engine("fast")


def test_other_names_are_refused() -> None:
    with pytest.raises(
        PluginError, match="expected auto, python or fast as the name of a compaction engine, found 'slow'"
    ):
        select_engine("slow")
