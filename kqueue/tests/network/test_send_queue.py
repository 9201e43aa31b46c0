from __future__ import annotations

import asyncio
import os
import random
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from kqueue.base.errors import StorageFailed
from kqueue.base.histogram import Histogram
from kqueue.network.region_sender import STEP_BYTES
from kqueue.network.send_queue import (
    JOIN_BYTES_MAX,
    READ_BYTES_MAX,
    REGIONS_MAX,
    SLICE_BYTES_MAX,
    SendQueue,
    memory_bytes,
)
from kqueue.schema import Chunk
from kqueue.storage import LocalStorage, MemoryStorage, Region
from kqueue.testing.stepped_jobs import SteppedJobs
from kqueue.tests.network.harness import until
from kqueue.tests.thorough import examples
from kqueue.workers.executor import JobExecutor


class Pipe:
    """A send queue, and the peer of its socket."""

    def __init__(self, jobs: SteppedJobs | JobExecutor | None = None) -> None:
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.far.setblocking(False)
        self.jobs = jobs or SteppedJobs()
        self.failures: list[str] = []
        self.drains = 0
        self.queue = SendQueue(
            self.near, asyncio.get_running_loop(), self.jobs, failed=self.failures.append, drained=self._drained
        )

    def _drained(self) -> None:
        self.drains += 1

    async def read(self, size: int) -> bytes:
        loop = asyncio.get_running_loop()
        parts = []
        async with asyncio.timeout(60):
            while size:
                parts.append(await loop.sock_recv(self.far, min(size, 1 << 20)))
                assert parts[-1], "the stream ended too early"
                size -= len(parts[-1])
        return b"".join(parts)

    def close(self) -> None:
        self.queue.close()
        self.near.close()
        self.far.close()


def piped(test: Callable[[Pipe], Awaitable[None]], jobs: SteppedJobs | JobExecutor | None = None) -> None:
    async def run() -> None:
        pipe = Pipe(jobs)
        try:
            await test(pipe)
        finally:
            pipe.close()

    asyncio.run(run())


def pattern(size: int, seed: int = 0) -> bytes:
    """Return bytes without repetition."""
    return random.Random(seed).randbytes(size)


class ColdSource:
    """A file whose pages enter memory when read; `reads`: (position, size) of each read."""

    def __init__(self, data: bytes, fails: bool = False) -> None:
        self.data = data
        self.fails = fails
        self.reads: list[tuple[int, int]] = []

    def read_at(self, position: int, size: int) -> bytes:
        if self.fails:
            raise StorageFailed("can't read it: EIO")
        self.reads.append((position, size))
        return self.data[position : position + size]

    def fileno(self) -> int | None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        return any(start <= position and position + size <= start + length for start, length in self.reads)


# a chunk is (kind, size): bytes, or a region of a file, of memory, or of a file that is not cached
CHUNKS = st.lists(
    st.tuples(
        st.sampled_from(["bytes", "bytearray", "memoryview", "local", "memory", "cold"]),
        st.one_of(
            st.integers(0, 64),
            st.sampled_from([READ_BYTES_MAX, READ_BYTES_MAX + 1, JOIN_BYTES_MAX + 1, STEP_BYTES + 5]),
        ),
    ),
    max_size=8,
)


@settings(max_examples=examples(25), deadline=None)
@given(answers=st.lists(CHUNKS, max_size=4))
@example(answers=[[("cold", 0), ("bytes", 3)]])
@example(
    answers=[[("bytes", 0)], [("bytes", JOIN_BYTES_MAX + 1), ("bytes", 0), ("local", STEP_BYTES + 5), ("memory", 0)]]
)
def test_client_reads_chunks_in_order(
    answers: list[list[tuple[str, int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    async def test() -> None:
        jobs = JobExecutor(asyncio.get_running_loop(), 1)
        pipe = Pipe(jobs)
        local, memory = LocalStorage(str(tmp_path_factory.mktemp("send-queue"))), MemoryStorage()
        expected = b""
        for answer in answers:
            chunks: list[Chunk] = []
            for kind, size in answer:
                data = pattern(size, len(expected))
                expected += data
                if kind in ("local", "memory"):
                    file = (local if kind == "local" else memory).open(f"f{len(expected)}-{size}", create=True)
                    position = file.append(b"before") + 6
                    file.append(data + b"after")
                    chunks.append(file.region(position, size))
                elif kind == "cold":
                    chunks.append(Region(ColdSource(b"." + data), 1, size))
                else:
                    chunks.append({"bytes": bytes, "bytearray": bytearray, "memoryview": memoryview}[kind](data))
            pipe.queue.add(chunks)
            pipe.queue.flush()
        assert await pipe.read(len(expected)) == expected
        await until(lambda: pipe.queue.is_empty)
        assert pipe.failures == []
        assert (pipe.queue.sent_bytes, pipe.queue.queued_bytes) == (len(expected), 0)
        pipe.close()
        await jobs.drain()
        jobs.stop()

    asyncio.run(test())


def test_small_responses_leave_in_one_send() -> None:
    async def test(pipe: Pipe) -> None:
        for number in range(100):
            pipe.queue.add([b"%03d" % number, bytearray(b".")])
        pipe.queue.flush()
        # a non-blocking receive returns only what was sent before it
        assert pipe.far.recv(10_000) == b"".join(b"%03d." % number for number in range(100))

    piped(test)


def test_queue_that_a_flush_empties_does_not_report_it_and_one_that_the_loop_empties_does() -> None:
    async def test(pipe: Pipe) -> None:
        pipe.queue.add([b"small"])
        pipe.queue.flush()
        assert (pipe.queue.is_empty, pipe.drains) == (True, 0)
        size = 2 * SLICE_BYTES_MAX
        pipe.queue.add([bytes(size)])
        pipe.queue.flush()
        assert not pipe.queue.is_empty, "the socket is full"
        await pipe.read(len(b"small") + size)
        assert (pipe.queue.is_empty, pipe.drains) == (True, 1)

    piped(test)


def test_time_is_measured_of_responses_that_find_the_socket_full() -> None:
    async def test(pipe: Pipe) -> None:
        blocked = pipe.queue.blocked = Histogram()
        pipe.queue.add([b"x"])
        pipe.queue.flush()
        assert blocked.count == 0
        pipe.queue.add([bytes(8 << 20)])
        pipe.queue.flush()
        await pipe.read((8 << 20) + 1)
        await until(lambda: pipe.queue.is_empty)
        assert blocked.count == 1
        assert blocked.sum_s > 0

    piped(test)


def test_all_bytes_arrive_through_a_full_socket() -> None:
    async def test(pipe: Pipe) -> None:
        data = pattern(8 << 20)
        pipe.queue.add([data])
        pipe.queue.flush()
        assert pipe.queue.waits_for_client
        assert 0 < pipe.queue.queued_bytes < len(data)
        pipe.queue.add([b"end"])
        pipe.queue.flush()
        assert await pipe.read(len(data) + 3) == data + b"end"
        await until(lambda: pipe.queue.is_empty)
        assert not pipe.queue.waits_for_client
        assert pipe.queue.queued_bytes == 0

    piped(test)


def test_file_is_sent_without_being_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """S4.4"""

    async def test(pipe: Pipe) -> None:
        storage = LocalStorage(str(tmp_path))
        file = storage.open("log", create=True)
        data = pattern(6 << 20)
        file.append(data)
        reads = []
        region = file.region(5, len(data) - 5)
        monkeypatch.setattr(type(region.source), "read_at", lambda *arguments: reads.append(arguments))
        pipe.queue.add([b"head", region, b"tail"])
        assert pipe.queue.queued_bytes == 8, "a region holds no memory"
        file.close()
        del file
        storage.remove("log")
        pipe.queue.flush()
        assert await pipe.read(len(data) - 5 + 8) == b"head" + data[5:] + b"tail"
        assert reads == []

    piped(test)


def test_file_is_read_and_sent_without_sendfile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(22, "not this file system")

    async def test(pipe: Pipe) -> None:
        file = LocalStorage(str(tmp_path)).open("log", create=True)
        data = pattern(3 << 20)
        file.append(data)
        monkeypatch.setattr(os, "sendfile", refuse)
        pipe.queue.add([file.region(0, len(data))])
        pipe.queue.flush()
        assert await pipe.read(len(data)) == data

    piped(test)


def test_cold_pages_are_read_by_a_job_step_by_step() -> None:
    jobs = SteppedJobs()

    async def test(pipe: Pipe) -> None:
        source = ColdSource(pattern(STEP_BYTES + 1000))
        pipe.queue.add([b"head", Region(source, 0, STEP_BYTES + 1000), b"tail"])
        pipe.queue.flush()
        assert await pipe.read(4) == b"head"
        assert source.reads == [], "nothing is read on the owner thread"
        assert len(jobs.pending) == 1
        pipe.queue.flush()  # another response in the meantime changes nothing
        assert len(jobs.pending) == 1
        assert jobs.step()
        assert await pipe.read(STEP_BYTES) == source.data[:STEP_BYTES]
        await until(lambda: bool(jobs.pending))
        assert source.reads[0] == (0, STEP_BYTES)
        jobs.run_all()
        assert await pipe.read(1004) == source.data[STEP_BYTES:] + b"tail"

    piped(test, jobs)


def test_disk_error_closes_the_connection() -> None:
    jobs = SteppedJobs()

    async def test(pipe: Pipe) -> None:
        pipe.queue.add([Region(ColdSource(b"x" * 100, fails=True), 0, 100)])
        pipe.queue.flush()
        jobs.run_all()
        assert pipe.failures == ["reading the log for it failed: can't read it: EIO"]

    piped(test, jobs)


@pytest.mark.parametrize("size", [100, READ_BYTES_MAX + 1, 2 * STEP_BYTES])
@pytest.mark.parametrize("backend", ["local", "memory"])
def test_short_file_closes_the_connection(backend: str, size: int, tmp_path: Path) -> None:
    async def test(pipe: Pipe) -> None:
        file = (LocalStorage(str(tmp_path)) if backend == "local" else MemoryStorage()).open("log", create=True)
        file.append(b"x" * size)
        pipe.queue.add([Region(file.region(0, size).source, 0, size + 10)])
        pipe.queue.flush()
        assert await pipe.read(size if size > READ_BYTES_MAX else 0) == b"x" * (size if size > READ_BYTES_MAX else 0)
        await until(lambda: bool(pipe.failures))
        assert pipe.failures == ["the log file is shorter than the length that was sent for it"]

    piped(test)


def test_disconnected_client_is_detected() -> None:
    async def test(pipe: Pipe) -> None:
        pipe.far.close()
        pipe.queue.add([b"hello"])
        pipe.queue.flush()
        assert pipe.failures == ["Broken pipe"]

    piped(test)


def test_nothing_is_sent_after_close() -> None:
    jobs = SteppedJobs()

    async def test(pipe: Pipe) -> None:
        pipe.queue.add([Region(ColdSource(b"x" * 100), 0, 100)])
        pipe.queue.flush()
        pipe.queue.close()
        jobs.run_all()
        pipe.queue.flush()
        with pytest.raises(BlockingIOError):
            pipe.far.recv(1)
        assert pipe.queue.is_empty
        assert pipe.failures == []

    piped(test, jobs)


def test_memory_of_counts_bytes_but_no_regions() -> None:
    assert memory_bytes([b"abc", bytearray(2), memoryview(b"1"), Region(ColdSource(b""), 0, 50)]) == 6


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="posix_fadvise is not available")
def test_evicted_pages_are_read_ahead_and_then_sent(tmp_path: Path) -> None:
    jobs = SteppedJobs()

    async def test(pipe: Pipe) -> None:
        file = LocalStorage(str(tmp_path)).open("log", create=True)
        data = pattern(2 * STEP_BYTES)
        file.append(data)
        file.sync()
        region = file.region(0, len(data))
        descriptor = region.fileno()
        assert descriptor is not None
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        if region.is_cached():
            pytest.skip("this file system keeps it")
        pipe.queue.add([region])
        pipe.queue.flush()
        assert len(jobs.pending) == 1
        reading = asyncio.ensure_future(pipe.read(len(data)))
        while not reading.done():
            jobs.run_all()
            await asyncio.sleep(0)
        assert await reading == data

    piped(test, jobs)


def test_queued_regions_are_counted_until_sent() -> None:
    file = MemoryStorage().open("a", create=True)
    file.append(bytes(1 << 20))
    sizes = [0, 100, READ_BYTES_MAX + 1, 100, 1 << 19] * (REGIONS_MAX // 5 + 1)

    async def test(pipe: Pipe) -> None:
        queue = pipe.queue
        queue.add([b"header"])
        assert (queue.held_regions, queue.waiting_regions >= REGIONS_MAX) == (0, False)
        queue.add([b"header", *(file.region(0, size) for size in sizes)])
        assert (queue.held_regions, queue.waiting_regions >= REGIONS_MAX) == (len(sizes), True)
        queue.flush()
        assert 0 < queue.held_regions < len(sizes)
        await pipe.read(12 + sum(sizes))
        await until(lambda: queue.is_empty)
        assert (queue.held_regions, queue.waiting_regions >= REGIONS_MAX) == (0, False)
        queue.add([b"header", file.region(0, 5)])
        queue.close()
        assert queue.held_regions == 0

    piped(test)
