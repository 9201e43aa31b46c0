"""S5.2: which engine compacts; with kqueue[fast] or without, a log is compacted."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kqueue.base.errors import PluginError
from kqueue.log.compaction import engine as engines
from kqueue.log.compaction.engine import PYTHON, engine


def test_python_is_always_there() -> None:
    assert engine("python") is PYTHON
    assert (PYTHON.index_chunk, PYTHON.keep_chunk) == (None, None)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "FAST", "kqueue.log.compaction.not_there")
    assert engine() is PYTHON
    with pytest.raises(PluginError, match=r"needs kqueue\[fast\]"):
        engine("fast")


def test_an_installation_that_does_not_work(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is told of, and the log is compacted all the same."""
    (tmp_path / "broken_kernels.py").write_text("raise AttributeError('numpy has changed')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(engines, "FAST", "broken_kernels")
    assert engine() is PYTHON
    assert "numpy has changed" in caplog.text
    with pytest.raises(PluginError, match="numpy has changed"):
        engine("fast")
    assert "broken_kernels" not in sys.modules


@pytest.mark.parametrize("name", ["", "slow", "Python"])
def test_names_that_nobody_has(name: str) -> None:
    with pytest.raises(PluginError, match="auto, python or fast"):
        engine(name)


def test_small_logs_are_not_worth_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "FAST", "must.not.be.imported")
    assert engine("auto", 0) is PYTHON
    assert engine("auto", engines.FAST_BYTES_MIN - 1) is PYTHON
    with pytest.raises(PluginError, match="must"):
        engine("fast", 0)
