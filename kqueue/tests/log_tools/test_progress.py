"""S7.2: progress is reported rarely enough to cost nothing, and at the end."""

from __future__ import annotations

from kqueue.log_tools.progress import STEP_BYTES, ProgressMeter


def test_each_step_and_the_end() -> None:
    seen: list[tuple[int, int]] = []
    total = 3 * STEP_BYTES
    meter = ProgressMeter(lambda done, total: seen.append((done, total)), total)
    for _ in range(300):
        meter.add(STEP_BYTES // 100)
    meter.finish()
    assert seen[-1] == (total, total)
    assert 2 <= len(seen) <= 4
    assert seen == sorted(seen)


def test_without_anybody_to_tell() -> None:
    meter = ProgressMeter(None, 10)
    meter.add(10 * STEP_BYTES)
    meter.finish()
    assert meter.done == 10 * STEP_BYTES
