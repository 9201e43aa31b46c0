from __future__ import annotations

from typing import cast

import pytest

import kqueue
from kqueue.admin.snapshot import SnapshotReader
from kqueue.cli.top.feed import Feed
from kqueue.cli.top.metrics_reader import MetricsReader
from kqueue.client import Client
from kqueue.client.errors import BrokerUnreachable, DeadlinePassed
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.waits import eventually


class FailingReader:
    """A reader of snapshots that fails."""

    error: BaseException | None = None

    def __init__(self, reader: SnapshotReader | None) -> None:
        self.reader = reader

    def read(self) -> object:
        if self.error is not None:
            raise self.error
        assert self.reader is not None
        return self.reader.read()


class Metrics:
    def read(self, now_s: float) -> tuple[list[object], list[str]]:
        return [], ["no metrics"]


def feed(reader: object, clock: object, metrics: object = None, interval_s: float = 2.0) -> Feed:
    return Feed(
        "b:1",
        cast("SnapshotReader", reader),
        cast("MetricsReader | None", metrics),
        interval_s,
        cast("ManualClock", clock),
    )


def test_rates_follow_from_two_readings_and_a_failure_keeps_the_picture() -> None:
    clock = ManualClock()
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        broker.create_topic("orders")
        reader = FailingReader(SnapshotReader(client, clock))
        shown = feed(reader, clock, Metrics())
        assert (shown.picture.snapshot, shown.picture.bootstrap) == (None, "b:1")
        first = shown.read()
        assert (first.topics, first.requests, first.problems) == ({}, [], ["no metrics"])
        broker.topics["orders"].produce_all(["a"] * 20)
        clock.advance(2_000)
        second = shown.read()
        assert second.topics["orders"].records_per_s == second.total.records_per_s == 10.0
        assert list(second.total_series) == [None, 10.0]
        reader.error = DeadlinePassed("no success within 3000 ms")
        reader.error.__cause__ = BrokerUnreachable("refused")
        assert shown.read().error == "refused"
        clock.advance(7_000)
        failed = shown.read()
        assert (failed.failed_for_s, failed.snapshot) == (7.0, second.snapshot)
        reader.error = None
        assert (shown.read().error, shown.picture.failed_for_s) == (None, 0.0)


def test_a_thread_reads_until_it_is_stopped() -> None:
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        from kqueue.base.clock import SystemClock

        shown = feed(SnapshotReader(client), SystemClock(), interval_s=0.01)
        shown.start()
        eventually(lambda: len(shown.picture.total_series) >= 3)
        shown.stop()
        assert shown.wait(0)
        assert not shown._thread.is_alive()
        assert shown.failure is None


def test_a_fault_ends_the_thread_and_is_kept() -> None:
    reader = FailingReader(None)
    reader.error = ZeroDivisionError("a fault")
    shown = feed(reader, ManualClock())
    shown.start()
    assert eventually(lambda: shown.failure) is reader.error
    with pytest.raises(ZeroDivisionError):
        shown.read()
