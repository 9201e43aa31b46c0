"""Starts the endpoint of a broker, and reads the broker for it on the broker's own thread."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from kqueue.base.clock import monotonic_s
from kqueue.base.histogram import Histogram
from kqueue.base.sliced_task import SlicedWork
from kqueue.config.metrics_listener import MetricsListener
from kqueue.telemetry.endpoint import MetricsEndpoint
from kqueue.telemetry.health import reasons_not_ready
from kqueue.telemetry.sample_reader import SampleReader
from kqueue.telemetry.samples import Samples, Sources

TICK_MS = 1000
T = TypeVar("T")


class MetricsService:
    """Metrics and health of one broker. Call `start` and `stop` on the owner thread.

    Args: on_owner: runs a call on the owner thread soon; callable from any thread.
    """

    def __init__(
        self,
        listener: MetricsListener,
        sources: Sources,
        on_owner: Callable[[Callable[[], None]], None],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Raises: ListenFailed."""
        self._listener = listener
        self._broker = sources.broker
        self._is_stopping = sources.is_stopping
        self._on_owner = on_owner
        self._reader = SampleReader(sources)
        self._loop_delay: Histogram = sources.loop_delay
        self._expected_s = 0.0
        self._endpoint = MetricsEndpoint(listener.host, listener.port, self._read_samples, self._read_reasons, tls)
        self._ticks = self._broker.scheduler.timers.every(TICK_MS, self._tick)

    @property
    def address(self) -> MetricsListener:
        """Where it listens, with the real port."""
        return self._listener._replace(port=self._endpoint.port)

    def start(self) -> None:
        """Answer from now on."""
        self._expected_s = monotonic_s() + TICK_MS / 1000
        self._endpoint.start()

    def stop(self) -> None:
        """Answer no more. A second call does nothing."""
        self._ticks.cancel()
        self._endpoint.stop()

    def close_descriptor(self) -> None:
        """Close the copy of the socket of a process that was forked from the broker's."""
        self._endpoint.close_descriptor()

    def _tick(self) -> None:
        now_s = monotonic_s()
        self._loop_delay.observe(max(now_s - self._expected_s, 0.0))
        self._expected_s = now_s + TICK_MS / 1000

    # --- called on the endpoint's threads

    def _read_samples(self) -> Future[Samples]:
        return self._read(self._reader.read)

    def _read_reasons(self) -> Future[list[str]]:
        def read() -> SlicedWork[list[str]]:
            return ["the broker is stopping"] if self._is_stopping() else reasons_not_ready(self._broker)
            yield  # not reached: it makes this a generator

        return self._read(read)

    def _read(self, work: Callable[[], SlicedWork[T]]) -> Future[T]:
        future: Future[T] = Future()

        def settle() -> SlicedWork[None]:
            try:
                future.set_result((yield from work()))
            except Exception as error:
                future.set_exception(error)

        self._on_owner(lambda: self._broker.scheduler.slices.add(settle()))
        return future
