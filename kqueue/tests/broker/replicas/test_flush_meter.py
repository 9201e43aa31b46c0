from __future__ import annotations

from kqueue.base.errors import StorageFailed
from kqueue.base.jobs import IoJob
from kqueue.broker.replicas.flush_meter import FlushMeter


def test_a_flush_is_counted_at_its_end_with_its_records_and_its_time() -> None:
    times = iter((10.0, 10.5))
    meter = FlushMeter(lambda: next(times))
    ended: list[BaseException | None] = []
    job = meter.measured(IoJob("flush t-0", lambda: None, lambda _, error: ended.append(error), "disk"), 7)
    assert (job.name, job.queue, meter.records) == ("flush t-0", "disk", 0)
    job.finish(None, None)
    assert (meter.records, meter.seconds.count, meter.seconds.sum_s, meter.failures) == (7, 1, 0.5, 0)
    assert ended == [None]


def test_a_flush_that_failed_makes_no_record_durable() -> None:
    meter = FlushMeter(lambda: 0.0)
    ended: list[BaseException | None] = []
    error = StorageFailed("EIO")
    meter.measured(IoJob("flush t-0", lambda: None, lambda _, error: ended.append(error)), 7).finish(None, error)
    assert (meter.records, meter.seconds.count, meter.failures) == (0, 0, 1)
    assert ended == [error]
