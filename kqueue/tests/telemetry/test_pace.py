from __future__ import annotations

import pytest

from kqueue.telemetry import pace
from kqueue.telemetry.pace import PAUSE_S, WORK_S, Pace


def test_a_thread_pauses_once_it_has_worked_for_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    pauses: list[float] = []
    monkeypatch.setattr(pace, "monotonic_s", lambda: now_s)
    monkeypatch.setattr(pace, "sleep", pauses.append)
    kept = Pace()
    now_s = WORK_S * 0.9
    kept.keep()
    assert pauses == []
    now_s = WORK_S * 1.1
    kept.keep()
    kept.keep()
    assert pauses == [PAUSE_S]
