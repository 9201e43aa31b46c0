"""Pushes metrics to a collector, by OpenTelemetry's protocol over HTTP.

It has a thread of its own. A collector that is down, slow or refuses costs a line in the log, once;
counters that are pushed later have what was missed. Of what clients push (KIP-714) the last is kept
until it is taken, within bounds.
"""

from __future__ import annotations

import gzip
import http.client
import logging
import ssl
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future

from kqueue.base import events
from kqueue.base.clock import wall_ns
from kqueue.base.errors import KqueueError
from kqueue.base.settings import MiB
from kqueue.base.version import __version__
from kqueue.broker.client_telemetry.receivers import ClientMetricsPush
from kqueue.config.metrics_push import MetricsPush
from kqueue.telemetry.otlp_messages import ClientInstances, message_of_client, messages_of
from kqueue.telemetry.samples import Samples

TIMEOUT_S = 10.0
"""For the broker to be read, and for each step of a request."""
ANSWER_BYTES_MAX = 64 * 1024
KEPT_BYTES_MAX = 16 * MiB
KEPT_PUSHES_MAX = 10_000
CONTENT_TYPE = "application/x-protobuf"
logger = logging.getLogger("kqueue.telemetry")


class PushRefused(KqueueError):
    """The collector has answered that it does not take the metrics."""


class MetricsPusher:
    """Pushes the metrics of one broker, at intervals.

    Args:
        read_samples: begins to read on the broker's thread; callable from any.
        resource: attributes of the broker.
        instances_max: client instances whose metrics are passed on.
    """

    def __init__(
        self,
        target: MetricsPush,
        read_samples: Callable[[], Future[Samples]],
        resource: Mapping[str, str],
        instances_max: int,
    ) -> None:
        self._target = target
        self._read_samples = read_samples
        self._resource = resource
        self._context = ssl.create_default_context() if target.uses_tls else None
        self._instances = ClientInstances(instances_max)
        self._is_bound_told = self._is_failing = False
        self._lock = threading.Lock()  # of what clients pushed
        self._kept: deque[ClientMetricsPush] = deque()
        self._kept_bytes = 0
        self._start_ns = wall_ns()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="kqueue-otlp", daemon=True)

    def start(self) -> None:
        """Push until `stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Push no more; a request under way ends by itself. A second call does nothing."""
        self._stopping.set()

    def receive(self, push: ClientMetricsPush) -> None:
        """Take what a client has pushed, to pass it on. Thread: the owner thread."""
        if not self._instances.admit(push):
            if not self._is_bound_told:
                self._is_bound_told = True
                events.METRICS_CLIENTS_LIMITED.log(
                    logger, "metrics of some clients are not passed on: too many clients (kqueue.metrics.names.max)"
                )
            return
        with self._lock:
            self._kept.append(push)
            self._kept_bytes += len(push.payload)
            while len(self._kept) > KEPT_PUSHES_MAX or self._kept_bytes > KEPT_BYTES_MAX:
                self._kept_bytes -= len(self._kept.popleft().payload)

    # --- on its own thread

    def _run(self) -> None:
        while not self._stopping.wait(self._target.interval_ms / 1000):
            self.push()

    def push(self) -> None:
        """Push all there is now. Failures are logged once, until a push succeeds. Blocks."""
        try:
            samples = self._read_samples().result(TIMEOUT_S)
            samples.read_disks()
            self._send(messages_of(samples, self._resource, self._start_ns, wall_ns()))
            self._pass_on()
        except (OSError, http.client.HTTPException, TimeoutError, PushRefused) as error:
            self._failed(str(error) or type(error).__name__)
        except Exception as error:
            if not self._is_failing:
                logger.debug("metrics could not be pushed", exc_info=True)
            self._failed(repr(error))
        else:
            if self._is_failing:
                self._is_failing = False
                events.METRICS_PUSHED_AGAIN.log(logger, "metrics are pushed to %s again", target=self._target)

    def _failed(self, why: str) -> None:
        if not self._is_failing and not self._stopping.is_set():
            self._is_failing = True
            events.METRICS_NOT_PUSHED.log(
                logger,
                "metrics can't be pushed to %s (kqueue.metrics.otlp.endpoint); it is tried again each %.0f s: %.300s",
                target=self._target,
                interval_s=self._target.interval_ms / 1000,
                why=why,
            )

    def _pass_on(self) -> None:
        """Send what clients have pushed, one after the other; what is taken is dropped."""
        while True:
            with self._lock:
                if not self._kept:
                    return
                push = self._kept[0]
            message = message_of_client(push, self._resource)
            if message is not None:
                self._send(iter((message,)))
            with self._lock:
                if self._kept and self._kept[0] is push:
                    self._kept.popleft()
                    self._kept_bytes -= len(push.payload)

    def _send(self, messages: Iterator[bytes]) -> None:
        """Send requests over one connection. Raises: OSError, HTTPException, PushRefused."""
        target = self._target
        connection = (
            http.client.HTTPConnection(target.host, target.port, timeout=TIMEOUT_S)
            if self._context is None
            else http.client.HTTPSConnection(target.host, target.port, timeout=TIMEOUT_S, context=self._context)
        )
        headers = {
            "Content-Type": CONTENT_TYPE,
            "Content-Encoding": "gzip",
            "User-Agent": f"kqueue/{__version__}",
            **target.headers,
        }
        try:
            for message in messages:
                if self._stopping.is_set():
                    return
                connection.request("POST", target.path, gzip.compress(message, 1), headers)
                response = connection.getresponse()
                answer = response.read(ANSWER_BYTES_MAX)
                if response.status != http.client.OK:
                    raise PushRefused(f"expected 200 OK, found {response.status} {response.reason} {answer[:100]!r}")
                if not response.isclosed():  # a longer answer: its rest would be the next one
                    connection.close()
        finally:
            connection.close()
