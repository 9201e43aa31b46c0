from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from kqueue.spark.jobs import progress
from kqueue.spark.jobs.progress import silent, watched

Report = tuple[str, int, int | None]


class FinishedStage:
    """A Spark whose first stage has done half of its tasks; `asked` is how often it was asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.sparkContext = SimpleNamespace(statusTracker=lambda: self)

    def getActiveStageIds(self) -> list[int]:
        self.asked += 1
        return [7]

    def getStageInfo(self, stage: int) -> Any:
        return SimpleNamespace(numTasks=4, numCompletedTasks=2)


def test_the_share_of_finished_tasks_is_the_share_of_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LOOK_S", 0.001)
    spark, reports, looked = FinishedStage(), list[Report](), threading.Event()

    def tell(stage: str, rows: int, total: int | None = None, /) -> None:
        reports.append((stage, rows, total))
        if len(reports) == 2:
            looked.set()

    with watched(spark, "archive", 100, 50, 400, tell):  # type: ignore[arg-type]
        assert looked.wait(60)
    assert (reports[0], reports[1], reports[-1]) == (
        ("archive", 100, 400),
        ("archive", 125, 400),
        ("archive", 150, 400),
    )


def test_hidden_progress_is_not_queried() -> None:
    spark = FinishedStage()
    with watched(spark, "archive", 0, 50, 50, silent):  # type: ignore[arg-type]
        pass
    assert spark.asked == 0
