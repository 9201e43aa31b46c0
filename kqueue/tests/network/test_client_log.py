from __future__ import annotations

import logging

import pytest

from kqueue.base import events
from kqueue.network.client_log import ClientLog
from kqueue.testing.manual_clock import ManualClock


def test_lines_of_one_noisy_client_are_suppressed_and_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = ManualClock()
    client_log = ClientLog(logging.getLogger("kqueue.server"), clock, per_second=1, burst=3)
    for number in range(10):
        client_log.log(events.CONNECTION_CLOSED, f"10.0.0.1:{number}", "noise %d", number=number)
    client_log.log(events.CONNECTION_CLOSED, "10.0.0.2:1", "quiet")
    clock.advance(1000)
    client_log.log(events.CONNECTION_CLOSED, "10.0.0.1:5", "again")
    assert [record.getMessage() for record in caplog.records] == [
        "noise 0",
        "noise 1",
        "noise 2",
        "quiet (7 lines like this left out)",
        "again",
    ]


def test_lines_are_bounded_across_addresses(caplog: pytest.LogCaptureFixture) -> None:
    client_log = ClientLog(logging.getLogger("kqueue.server"), ManualClock(), per_second=1, burst=3)
    for number in range(3000):
        client_log.log(events.CONNECTION_CLOSED, f"10.0.{number // 256}.{number % 256}:1", "noise")
    assert len(caplog.records) == 30
    assert len(client_log._by_address) <= ClientLog.ADDRESSES_MAX
