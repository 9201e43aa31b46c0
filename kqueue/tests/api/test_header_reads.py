"""A ShareFetch of a log that is on the disk only: headers are read in a job, never on the loop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.storage.memory import MemoryFile
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import Member, acquired, data_of, earliest, fill
from kqueue.wire.error_codes import ErrorCode


class ColdDisk:
    """Log files in memory that count as uncached until a job has read them.

    `reads_on_loop`: headers read while they do. The look for an offset within a segment, which
    Fetch shares, is not counted.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, client: SimulatedClient) -> None:
        self.is_cold = True
        self.broken = False
        self.in_job = False
        self.reads_on_loop = 0
        read_at = MemoryFile.read_at
        step = client.sim.jobs.step

        def counted_read(file: MemoryFile, position: int, size: int) -> bytes:
            if self.in_job:
                if self.broken:
                    raise StorageFailed("the disk")
                self.is_cold = False
            elif self.is_cold:
                self.reads_on_loop += size == BATCH_OVERHEAD
            return read_at(file, position, size)

        def marked_step() -> bool:
            with self.job():
                return step()

        monkeypatch.setattr(MemoryFile, "read_at", counted_read)
        monkeypatch.setattr(MemoryFile, "is_cached", lambda file, position, size: not self.is_cold)
        monkeypatch.setattr(client.sim.jobs, "step", marked_step)

    @contextmanager
    def job(self) -> Iterator[None]:
        self.in_job = True
        try:
            yield
        finally:
            self.in_job = False


@pytest.fixture
def client() -> SimulatedClient:
    client = SimulatedClient()
    client.sim.topic("t")
    earliest(client)
    fill(client, 3, 2)
    return client


@pytest.fixture
def disk(client: SimulatedClient, monkeypatch: pytest.MonkeyPatch) -> ColdDisk:
    return ColdDisk(monkeypatch, client)


def test_headers_are_read_in_a_job(client: SimulatedClient, disk: ColdDisk) -> None:
    member = Member(client)
    started = member.start()
    while not client.sim.jobs.pending and client.sim.broker.scheduler.purgatory.run_ready():
        pass
    assert len(client.sim.jobs.pending) == 1
    assert started.response is None
    client.sim.broker.scheduler.purgatory.wake(client.sim.broker.topics.partition("t", 0))
    client.sim.broker.scheduler.purgatory.run_ready()
    assert len(client.sim.jobs.pending) == 1, "one job for a partition"
    client.sim.settle()
    assert acquired(started.response) == [(0, 4, 1)]
    assert disk.reads_on_loop == 0


def test_a_disk_that_fails(client: SimulatedClient, disk: ColdDisk) -> None:
    disk.broken = True
    assert data_of(Member(client).fetch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert disk.reads_on_loop == 0


def test_a_disk_that_does_not_answer(client: SimulatedClient, disk: ColdDisk) -> None:
    member = Member(client)
    started = member.start()
    client.sim.broker.scheduler.purgatory.run_ready()
    stalled, client.sim.jobs.pending = list(client.sim.jobs.pending), type(client.sim.jobs.pending)()
    assert stalled
    client.sim.advance(10_000)
    assert acquired(started.response) == []
    client.sim.jobs.pending.extend(stalled)
    client.sim.settle()
    assert acquired(member.fetch()) == [(0, 4, 1)], "nothing was acquired for the answer without records"
