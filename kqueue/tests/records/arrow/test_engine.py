"""The choice of the engine, and the message where one is missing."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

import pytest

from kqueue.base.errors import ExtraNeeded
from kqueue.records.arrow import engine
from kqueue.records.arrow.contract import ChunkLimits
from kqueue.records.arrow.engine import FAST_BYTES_MIN, chunk_builder
from kqueue.records.arrow.python_engine import PythonChunkBuilder
from kqueue.tests.records.arrow.helpers import NEEDS_FAST


def name_of(engine_name: engine.EngineName = "auto", data_bytes: int | None = None) -> str:
    return type(chunk_builder(ChunkLimits(), engine_name, data_bytes)).__name__


def test_python_is_always_there() -> None:
    assert isinstance(chunk_builder(ChunkLimits(), "python"), PythonChunkBuilder)


@NEEDS_FAST
def test_compiled_engine_is_chosen_from_the_least_size_on(monkeypatch: pytest.MonkeyPatch) -> None:
    assert name_of() == name_of("fast", 1) == name_of("auto", FAST_BYTES_MIN) == "CompiledChunkBuilder"
    assert name_of("auto", 1) == "CompiledChunkBuilder"  # it has been loaded
    monkeypatch.delitem(sys.modules, engine.FAST)
    assert name_of("auto", FAST_BYTES_MIN - 1) == "PythonChunkBuilder"


def test_missing_engine_falls_back_unless_it_is_required(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(engine, "FAST", "kqueue.records.arrow.missing")
    assert name_of() == "PythonChunkBuilder"
    assert not caplog.records
    with pytest.raises(ExtraNeeded, match=r"pip install '\.\[fast\]'"):
        chunk_builder(ChunkLimits(), "fast")


def test_broken_engine_is_logged_and_replaced(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """An installation that is broken is told, and does not stop the work."""
    (tmp_path / "kqueue_broken_engine.py").write_text("raise RuntimeError('no such processor')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(engine, "FAST", "kqueue_broken_engine")
    with caplog.at_level(logging.WARNING, "kqueue.records"):
        assert name_of() == "PythonChunkBuilder"
    assert "no such processor" in caplog.text


def test_unknown_engine_name_is_refused() -> None:
    with pytest.raises(ValueError, match="auto, python, fast"):
        chunk_builder(ChunkLimits(), "quick")  # type: ignore[arg-type]
