from __future__ import annotations

import sys

import pytest

from kqueue.records.arrow import engine as engines
from kqueue.spark.sink.batcher import ROWS_FEW, EngineSelector
from kqueue.tests.records.arrow.helpers import NEEDS_FAST


@NEEDS_FAST
def test_a_process_that_sees_many_rows_has_its_loops_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """However they are split over tasks, partitions and batches."""
    monkeypatch.delitem(sys.modules, engines.FAST, raising=False)
    selector = EngineSelector()
    assert selector.choose("auto", ROWS_FEW - 1) == "python"
    assert selector.choose("auto", 1) == "fast"
    assert selector.choose("auto", 1) == "fast"


def test_engine_asked_for_is_chosen_whatever_the_size() -> None:
    assert EngineSelector().choose("python", ROWS_FEW) == "python"
