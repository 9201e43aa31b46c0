"""`Sampler`: reads the cluster, and the metrics of brokers, again and again, on a thread."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

from kqueue.admin.snapshot import SnapshotReader
from kqueue.base import events
from kqueue.base.clock import Clock, SystemClock
from kqueue.base.errors import KqueueError
from kqueue.base.terminal import one_line
from kqueue.client import Client, ClientOptions
from kqueue.console.history.broker_metrics import BrokerMetrics
from kqueue.console.history.cluster_history import ClusterHistory, LatestLoad

INTERVAL_MS = 10_000
BUSY_SHARE = 5
"""A sample that takes long is followed by a pause of so many times its length, less one."""
RETRY_SAMPLES = 6
"""An endpoint of metrics that fails is asked again after so many samples: it may cost seconds."""
STOP_S = 10.0
PROBLEM_CHARACTERS_MAX = 300
logger = logging.getLogger("kqueue.console.history")


class Sampler:
    """Records samples of a cluster into a history, until `stop`.

    Args:
        options: of its own client; its credentials decide which topics and groups are read.
        metrics: the endpoints of brokers' metrics.
        interval_ms: between samples; longer while a sample takes more than a fifth of it.
    Thread: `start`, `stop` and `wake` any; `sample` one at a time.
    """

    def __init__(
        self,
        options: ClientOptions,
        *,
        metrics: Sequence[BrokerMetrics] = (),
        interval_ms: int = INTERVAL_MS,
        clock: Clock | None = None,
        make_client: Callable[[ClientOptions], Client] = Client,
    ) -> None:
        self.history = ClusterHistory(interval_ms)
        self._clock = clock or SystemClock()
        self._client = make_client(options)
        self._reader = SnapshotReader(self._client, self._clock)
        self._metrics = list(metrics)
        self._interval_ms = interval_ms
        self._skipped: dict[str, int] = {}
        self._now_ms = 0
        self._monotonic_ms = 0.0
        self._woken = threading.Event()
        self._is_stopping = False
        self._first = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample. A second call does nothing."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="kqueue-console-history", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Sample no more, and close the client, after a sample that is under way."""
        self._is_stopping = True
        self._woken.set()
        if self._thread is not None:
            self._thread.join(STOP_S)
        if self._thread is None or not self._thread.is_alive():
            self._client.close()

    def wake(self) -> None:
        """Take the next sample now: something has changed."""
        self._woken.set()

    def wait_for_first(self, timeout_s: float) -> bool:
        """Return whether a sample has been tried; waits for the first up to `timeout_s` seconds."""
        return self._first.wait(timeout_s)

    def sample(self) -> None:
        """Take one sample. Whatever fails is a gap in the history; it raises nothing."""
        now_ms = self._time_ms()
        try:
            snapshot = self._reader.read()
            self.history.record(now_ms, snapshot)
        except KqueueError as error:
            self.history.record_failure(now_ms, _sentence(error))
        except Exception as error:
            events.CONSOLE_SAMPLE_FAILED.log(
                logger, "a sample of the cluster failed; the next one is tried as usual", exc_info=True
            )
            self.history.record_failure(now_ms, _sentence(error))
        self._first.set()
        if self._metrics:
            self.history.record_metrics(now_ms, [self._load(each) for each in self._metrics])

    def _load(self, metrics: BrokerMetrics) -> LatestLoad:
        before = next((each for each in self.history.loads if each.url == metrics.url), LatestLoad(metrics.url))
        if self._skipped.get(metrics.url, 0) > 0:
            self._skipped[metrics.url] -= 1
            return before
        try:
            return LatestLoad(metrics.url, metrics.sample())
        except KqueueError as error:
            self._skipped[metrics.url] = RETRY_SAMPLES - 1
            return LatestLoad(metrics.url, problem=_sentence(error))
        except Exception as error:
            events.CONSOLE_SAMPLE_FAILED.log(
                logger, "the metrics at %s can't be used", url=one_line(metrics.url), exc_info=True
            )
            self._skipped[metrics.url] = RETRY_SAMPLES - 1
            return LatestLoad(metrics.url, problem=_sentence(error))

    def _time_ms(self) -> int:
        """Return milliseconds since 1970, which never go back: a clock that is set back stands for
        the time that passed.
        """
        monotonic_ms = self._clock.monotonic_ms()
        self._now_ms = max(self._clock.wall_ms(), self._now_ms + int(monotonic_ms - self._monotonic_ms))
        self._monotonic_ms = monotonic_ms
        return self._now_ms

    def _run(self) -> None:
        while not self._is_stopping:
            self._woken.clear()
            began_ms = self._time_ms()
            self.sample()
            now_ms = self._time_ms()
            self._woken.wait(wait_ms(now_ms, now_ms - began_ms, self._interval_ms) / 1000)


def wait_ms(now_ms: int, took_ms: int, interval_ms: int) -> int:
    """Return how long to wait after a sample that took so long.

    Samples are a quarter into their slot of the series: at its edge one would now and then be late
    for it, and leave a gap.
    """
    earliest_ms = now_ms + took_ms * (BUSY_SHARE - 1)
    offset_ms = interval_ms // 4
    slot = (earliest_ms - offset_ms) // interval_ms + 1
    return slot * interval_ms + offset_ms - now_ms


def _sentence(error: BaseException) -> str:
    text = one_line(str(error) or type(error).__name__)
    return text if len(text) <= PROBLEM_CHARACTERS_MAX else f"{text[: PROBLEM_CHARACTERS_MAX - 1]}…"
