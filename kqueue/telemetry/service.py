"""Starts what exports the metrics of a broker, and reads the broker for it on the owner thread."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, TypeVar

from kqueue.base.clock import monotonic_s
from kqueue.base.histogram import Histogram
from kqueue.base.sliced_task import SlicedWork
from kqueue.base.version import __version__
from kqueue.config.metrics_listener import MetricsListener
from kqueue.config.metrics_push import MetricsPush
from kqueue.telemetry.health import reasons_not_in_sync, reasons_not_ready
from kqueue.telemetry.sample_reader import SampleReader
from kqueue.telemetry.samples import Samples, Sources

if TYPE_CHECKING:
    from kqueue.telemetry.endpoint import MetricsEndpoint
    from kqueue.telemetry.otlp_push import MetricsPusher

TICK_MS = 1000
T = TypeVar("T")


class MetricsService:
    """Metrics and health of one broker. Call `start` and `stop` on the owner thread.

    Args: on_owner: runs a call on the owner thread soon; callable from any thread.
    """

    def __init__(self, sources: Sources, on_owner: Callable[[Callable[[], None]], None]) -> None:
        self._listener: MetricsListener | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._pusher: MetricsPusher | None = None
        self._names_max = sources.names_max
        self._broker = sources.broker
        self._is_stopping = sources.is_stopping
        self._on_owner = on_owner
        self._reader = SampleReader(sources)
        self._loop_delay: Histogram = sources.loop_delay
        self._expected_s = 0.0
        self._ticks = self._broker.scheduler.timers.every(TICK_MS, self._tick)

    def listen(self, listener: MetricsListener, tls: ssl.SSLContext | None) -> None:
        """Open the endpoint that `start` serves. Call it once. Raises: ListenFailed."""
        from kqueue.telemetry.endpoint import MetricsEndpoint  # on use: it needs prometheus-client

        self._listener = listener
        self._endpoint = MetricsEndpoint(listener.host, listener.port, self._read_samples, self._read_reasons, tls)

    def push_to(self, target: MetricsPush) -> None:
        """Push to a collector after `start`, what clients push too. Call it once."""
        from kqueue.telemetry.otlp_push import MetricsPusher  # on use: it needs opentelemetry-proto

        node_id, cluster_id = self._broker.identity.node_id, self._broker.logs.cluster_id
        resource = {
            "service.name": "kqueue",
            "service.version": __version__,
            "service.instance.id": f"{cluster_id}-{node_id}",
            "kafka.cluster.id": cluster_id,
            "kafka.broker.id": str(node_id),
        }
        self._pusher = MetricsPusher(target, self._read_samples, resource, self._names_max)
        self._broker.telemetry.forward_to(self._pusher.receive)

    @property
    def address(self) -> MetricsListener | None:
        """Where it listens, with the real port; None: nowhere."""
        if self._listener is None or self._endpoint is None:
            return None
        return self._listener._replace(port=self._endpoint.port)

    def start(self) -> None:
        """Answer, and push, from now on."""
        self._expected_s = monotonic_s() + TICK_MS / 1000
        if self._endpoint is not None:
            self._endpoint.start()
        if self._pusher is not None:
            self._pusher.start()

    def stop(self) -> None:
        """Answer and push no more. A second call does nothing."""
        self._ticks.cancel()
        if self._endpoint is not None:
            self._endpoint.stop()
        if self._pusher is not None:
            self._pusher.stop()

    def close_descriptor(self) -> None:
        """Close the copy of the socket of a process that was forked from the broker's."""
        if self._endpoint is not None:
            self._endpoint.close_descriptor()

    def _tick(self) -> None:
        now_s = monotonic_s()
        self._loop_delay.observe(max(now_s - self._expected_s, 0.0))
        self._expected_s = now_s + TICK_MS / 1000

    # --- called on the threads of endpoint and pusher

    def _read_samples(self) -> Future[Samples]:
        return self._read(self._reader.read)

    def _read_reasons(self, in_sync: bool) -> Future[list[str]]:
        def read() -> SlicedWork[list[str]]:
            if self._is_stopping():
                return ["the broker is stopping"]
            return reasons_not_ready(self._broker) + (reasons_not_in_sync(self._broker) if in_sync else [])
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
