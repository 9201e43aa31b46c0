"""Batch headers of a region: as many as a fetch needs; a job reads those on the disk only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.share import share_headers
from kqueue.broker.share.share_headers import PAGE_BYTES, read_headers
from kqueue.records.batch import BATCH_OVERHEAD
from kqueue.storage import Region
from kqueue.storage.memory import MemoryFile
from kqueue.tests.api.harness import SimulatedClient, batch
from kqueue.tests.api.share_client import Member, acquired, data_of, earliest, fill
from kqueue.wire.error_codes import ErrorCode


class PagedFile:
    """A file of which some pages are in memory; a read brings its own in."""

    def __init__(self, data: bytes, cached: set[int]) -> None:
        self.data = data
        self.cached = cached
        self.blocked = 0
        self.probes = 0

    def _pages(self, position: int, size: int) -> set[int]:
        return set(range(position // PAGE_BYTES, (position + size - 1) // PAGE_BYTES + 1))

    def read_at(self, position: int, size: int) -> bytes:
        pages = self._pages(position, size)
        self.blocked += not pages <= self.cached
        self.cached |= pages
        return self.data[position : position + size]

    def fileno(self) -> None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        self.probes += 1
        return self._pages(position, size) <= self.cached


def log_of(count: int, size: int = 100) -> bytes:
    return b"".join(batch(b"x" * size, b"y", base_offset=2 * number) for number in range(count))


def test_as_many_as_the_records_need() -> None:
    data = log_of(5)
    region = Region(PagedFile(data, {0}), 0, len(data))
    headers = read_headers(region, 3, may_block=False)
    assert headers is not None
    assert [each.header.base_offset for each in headers.batches] == [0, 2, 4]
    assert [each.position for each in headers.batches] == [0, len(data) // 5, 2 * len(data) // 5]
    assert headers.next_offset == 6


def test_a_pass_has_a_bound() -> None:
    one = batch(b"x")
    region = Region(PagedFile(one * 3000, set(range(1000))), 0, len(one) * 3000)
    headers = read_headers(region, 2**31, may_block=False)
    assert headers is not None
    assert len(headers.batches) == share_headers.BATCHES_MAX


def test_nothing_is_read_that_is_on_the_disk_only() -> None:
    data = log_of(20, 1000)
    file = PagedFile(data, {0, 1})
    region = Region(file, 0, len(data))
    assert read_headers(region, 1000, may_block=False) is None
    assert file.blocked == 0
    headers = read_headers(region, 1000, may_block=True)
    assert headers is not None
    assert len(headers.batches) == 20
    assert file.blocked
    file.blocked = 0
    assert read_headers(region, 1000, may_block=False) is not None
    assert file.blocked == 0


def test_a_page_is_looked_for_once() -> None:
    data = log_of(30)
    file = PagedFile(data, set(range(10)))
    assert read_headers(Region(file, 0, len(data)), 1000, may_block=False) is not None
    assert file.probes <= -(-len(data) // PAGE_BYTES) + 1


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
