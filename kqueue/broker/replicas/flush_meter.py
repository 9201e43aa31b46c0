"""Counts flushes, the records that each makes durable, and how long they take.

A broker has one while its metrics are exported, else none: a flush then costs one look at an
attribute more.
"""

from __future__ import annotations

from collections.abc import Callable

from kqueue.base.clock import monotonic_s
from kqueue.base.histogram import Histogram
from kqueue.base.jobs import IoJob


class FlushMeter:
    """The flushes of all logs of one broker.

    Thread: the owner thread.

    Attributes:
        records: that ended flushes have made durable; divided by the number of flushes it is the
            size of a batch.
        failures: flushes that failed.
        seconds: from the start of a flush until the broker knows its end, of those that succeeded.
    """

    def __init__(self, now: Callable[[], float] = monotonic_s) -> None:
        self._now = now
        self.records = 0
        self.failures = 0
        self.seconds = Histogram()

    def measured(self, job: IoJob[None], records: int) -> IoJob[None]:
        """Return the job of a flush, counted. Args: records: that are not durable before it."""
        began_s, finish = self._now(), job.finish

        def ended(result: None, error: BaseException | None) -> None:
            if error is None:
                self.seconds.observe(self._now() - began_s)
                self.records += records
            else:
                self.failures += 1
            finish(result, error)

        return IoJob(job.name, job.run, ended, job.queue)
