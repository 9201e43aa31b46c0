"""Reads a cluster in a thread of its own, so that keys are answered while a broker is silent."""

from __future__ import annotations

import threading
from dataclasses import replace

from kqueue.admin.rates import History
from kqueue.admin.snapshot import SnapshotReader, cause_of
from kqueue.base.clock import Clock
from kqueue.cli.top.metrics_reader import MetricsReader
from kqueue.cli.top.picture import Picture
from kqueue.client.errors import ClientError

STOP_S = 0.5


class Feed:
    """The latest picture of a cluster.

    Args:
        metrics: None: no address of metrics was given.

    Thread: `picture` may be read by any; `read` is called by one, or by the thread that `start`
        starts.
    """

    def __init__(
        self, bootstrap: str, reader: SnapshotReader, metrics: MetricsReader | None, interval_s: float, clock: Clock
    ) -> None:
        self._reader = reader
        self._metrics = metrics
        self._interval_s = interval_s
        self._clock = clock
        self._history = History()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kqueue top", daemon=True)
        self._failed_since_ms: float | None = None
        self.picture = Picture(bootstrap, history=self._history, lock=self._lock)
        self.failure: BaseException | None = None
        """What ended the thread, other than `stop`: a fault of this program."""

    def start(self) -> None:
        """Start to read every interval."""
        self._thread.start()

    def stop(self) -> None:
        """Stop to read. A reading that waits for a broker is not waited for."""
        self._stopped.set()
        self._thread.join(STOP_S)

    def read(self) -> Picture:
        """Read the cluster once; return the picture, which has the error if that failed."""
        requests, problems = (None, []) if self._metrics is None else self._metrics.read(self._now_ms() / 1000)
        try:
            snapshot = self._reader.read()
        except ClientError as error:
            if self._failed_since_ms is None:
                self._failed_since_ms = self._now_ms()
            failed_for_s = (self._now_ms() - self._failed_since_ms) / 1000
            self.picture = replace(
                self.picture, error=str(cause_of(error)), failed_for_s=failed_for_s, problems=problems
            )
            return self.picture
        self._failed_since_ms = None
        with self._lock:
            self._history.add(snapshot.sample)
            topics, groups = self._history.topics(), self._history.groups()
            total, total_series = self._history.total(), self._history.total_records()
        self.picture = replace(
            self.picture,
            snapshot=snapshot,
            topics=topics,
            groups=groups,
            total=total,
            total_series=total_series,
            requests=requests,
            problems=[*snapshot.problems, *problems],
            error=None,
            failed_for_s=0.0,
        )
        return self.picture

    def wait(self, seconds: float) -> bool:
        """Wait, unless it is stopped; return whether it is."""
        return self._stopped.wait(seconds)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                begin_ms = self._now_ms()
                self.read()
                took_s = (self._now_ms() - begin_ms) / 1000
                self._stopped.wait(max(self._interval_s - took_s, self._interval_s / 10))
        except BaseException as error:
            if not self._stopped.is_set():  # else the client was closed under it
                self.failure = error

    def _now_ms(self) -> float:
        return self._clock.monotonic_ms()
