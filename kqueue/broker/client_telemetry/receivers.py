"""The interface of receivers of the metrics that clients push (KIP-714), and the receiver that
keeps them in memory.

A receiver is a callable that takes a `ClientMetricsPush`. It is called on the owner thread, so it
must return at once. The setting `kqueue.client.metrics` names it: ``memory``, or
``module:callable``. Without one the broker does not ask clients for metrics.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from kqueue.base.errors import PluginError, SettingError
from kqueue.base.registry import import_object
from kqueue.base.settings import MiB
from kqueue.broker.client_telemetry.otlp_metrics import ClientMetric, decode_metrics

SETTING = "kqueue.client.metrics"
MEMORY = "memory"
KEPT_BYTES_MAX = 16 * MiB
KEPT_PUSHES_MAX = 10_000


@dataclass(frozen=True)
class ClientMetricsPush:
    """One push. `payload`: metrics in OpenTelemetry's protobuf format, decompressed.

    `client_instance_id`: a UUID as text, constant for the life of a client. `time_ms`: when it
    arrived. `terminating`: the client's last one.
    """

    client_instance_id: str
    client_id: str
    software_name: str
    software_version: str
    address: str
    time_ms: int
    terminating: bool
    payload: bytes

    @cached_property
    def metrics(self) -> list[ClientMetric]:
        """The values in `payload`, read on first use. Raises CorruptData."""
        return decode_metrics(self.payload)


Receiver = Callable[[ClientMetricsPush], object]


class MemoryReceiver:
    """Keeps the last pushes: at most `KEPT_PUSHES_MAX`, with payloads of `KEPT_BYTES_MAX`."""

    def __init__(self) -> None:
        self._pushes: deque[ClientMetricsPush] = deque()
        self._kept_bytes = 0

    def __call__(self, push: ClientMetricsPush) -> None:
        """Keep a push, and forget the oldest ones beyond the bounds."""
        self._pushes.append(push)
        self._kept_bytes += len(push.payload)
        while len(self._pushes) > KEPT_PUSHES_MAX or self._kept_bytes > KEPT_BYTES_MAX:
            self._kept_bytes -= len(self._pushes.popleft().payload)

    @property
    def pushes(self) -> list[ClientMetricsPush]:
        """All that are kept, oldest first."""
        return list(self._pushes)


def open_receiver(name: str | None) -> Receiver | None:
    """Return the receiver that the setting names; None: none. Raises SettingError: it can't be
    used.
    """
    if not name:
        return None
    if name == MEMORY:
        return MemoryReceiver()
    try:
        receiver = import_object(name, "receiver of client metrics")
    except PluginError as error:
        raise SettingError(f"{SETTING}={name}: {error}") from error
    if not callable(receiver):
        raise SettingError(f"{SETTING}={name}: expected a callable, found {type(receiver).__name__}")
    checked: Receiver = receiver
    return checked
