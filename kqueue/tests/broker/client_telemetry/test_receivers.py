from __future__ import annotations

import pytest

from kqueue.base.errors import SettingError
from kqueue.broker.client_telemetry import receivers as client_metrics
from kqueue.broker.client_telemetry.receivers import ClientMetricsPush, MemoryReceiver, open_receiver
from kqueue.tests.broker.client_telemetry.otlp_payload import gauge, payload


def push(number: int, data: bytes = b"") -> ClientMetricsPush:
    return ClientMetricsPush("id", "c", "python", "1", "127.0.0.1", number, False, data)


def test_the_last_pushes_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "KEPT_PUSHES_MAX", 3)
    receiver = MemoryReceiver()
    for number in range(5):
        receiver(push(number))
    assert [one.time_ms for one in receiver.pushes] == [2, 3, 4]


def test_the_bytes_of_all_payloads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_metrics, "KEPT_BYTES_MAX", 100)
    receiver = MemoryReceiver()
    for number in range(4):
        receiver(push(number, b"x" * 40))
    assert [one.time_ms for one in receiver.pushes] == [2, 3]
    receiver(push(9, b"x" * 101))
    assert receiver.pushes == []


def test_metrics_of_a_push() -> None:
    assert [metric.name for metric in push(1, payload(gauge("g", 2))).metrics] == ["g"]


def test_the_setting_names_a_receiver() -> None:
    assert open_receiver(None) is None
    assert isinstance(open_receiver("memory"), MemoryReceiver)
    assert open_receiver("builtins:repr") is repr
    for name, message in (("no_such_module:x", "can't be imported"), ("math:pi", "expected a callable, found float")):
        with pytest.raises(SettingError, match=message):
            open_receiver(name)
