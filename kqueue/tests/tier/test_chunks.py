from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.testing.tier_faults import FaultyTierStore, missing, slow, truncated, unavailable
from kqueue.tests.thorough import examples
from kqueue.tier.chunks import CHUNKS_AHEAD, ChunkCache
from kqueue.tier.errors import ObjectNotFound, TierCorrupt, TierUnavailable
from kqueue.tier.stores.memory import MemoryTierStore

DATA = random.Random(1).randbytes(1000)
KEY = "topics/a"


def store_of(**objects: bytes) -> FaultyTierStore:
    store = FaultyTierStore(MemoryTierStore())
    for name, data in {"a": DATA, **objects}.items():
        store.put(f"topics/{name}", [data], len(data))
    store.calls.clear()
    return store


class Later:
    """Runs what was asked for when it is told to."""

    def __init__(self) -> None:
        self.tasks: list[Callable[[], object]] = []

    def __call__(self, task: Callable[[], object]) -> None:
        self.tasks.append(task)

    def run(self) -> None:
        while self.tasks:
            self.tasks.pop(0)()


@settings(max_examples=examples(300))
@given(
    reads=st.lists(st.tuples(st.integers(0, 1100), st.integers(0, 400)), max_size=10),
    chunk_bytes=st.integers(1, 300),
    memory_bytes=st.integers(0, 600),
    limit=st.integers(0, 1000),
)
def test_reads_give_the_bytes_of_the_object_up_to_its_limit(
    reads: list[tuple[int, int]], chunk_bytes: int, memory_bytes: int, limit: int
) -> None:
    later = Later()
    chunks = ChunkCache(store_of(), chunk_bytes=chunk_bytes, memory_bytes=memory_bytes, run_later=later)
    for position, size in reads:
        assert chunks.read(KEY, limit, position, size) == DATA[:limit][position : position + size]
        later.run()


def test_chunk_is_fetched_once_and_counted() -> None:
    store = store_of()
    chunks = ChunkCache(store, chunk_bytes=100)
    for _ in range(3):
        assert chunks.read(KEY, 1000, 150, 100) == DATA[150:250]
    assert len(store.calls) == 2
    assert (chunks.hits, chunks.misses, chunks.fetched_bytes) == (4, 2, 200)
    assert chunks.is_cached(KEY, 100, 200)
    assert not chunks.is_cached(KEY, 100, 201)
    assert chunks.is_cached(KEY, 0, 0)


def test_memory_is_bounded_and_keeps_what_was_used_last() -> None:
    store = store_of()
    chunks = ChunkCache(store, chunk_bytes=100, memory_bytes=300)
    for number in (0, 1, 2, 0, 3):
        chunks.read(KEY, 1000, number * 100, 100)
    assert [chunks.is_cached(KEY, number * 100, 100) for number in range(5)] == [True, False, True, True, False]
    assert chunks._memory_size == 300


def test_one_chunk_is_kept_however_little_memory_there_is() -> None:
    chunks = ChunkCache(store_of(), chunk_bytes=100, memory_bytes=0)
    chunks.read(KEY, 1000, 0, 100)
    assert chunks.is_cached(KEY, 0, 100)


def test_forgotten_object_is_fetched_again(tmp_path: Path) -> None:
    store = store_of(b=DATA)
    chunks = ChunkCache(store, chunk_bytes=100, folder=tmp_path, disk_bytes=10_000)
    for key in (KEY, "topics/b"):
        chunks.read(key, 1000, 0, 200)
    chunks.forget(KEY)
    assert not chunks.is_cached(KEY, 0, 100)
    assert chunks.is_cached("topics/b", 0, 200)
    assert chunks._memory_size == 200
    assert len(list(tmp_path.iterdir())) == 2


# --- faults


def test_error_is_raised_and_the_next_read_asks_again() -> None:
    store = store_of()
    chunks = ChunkCache(store, chunk_bytes=100)
    store.fail(unavailable("get_range"), times=1)
    store.fail(missing("get_range"), times=1)
    with pytest.raises(TierUnavailable):
        chunks.read(KEY, 1000, 0, 10)
    with pytest.raises(ObjectNotFound):
        chunks.read(KEY, 1000, 0, 10)
    assert chunks.read(KEY, 1000, 0, 10) == DATA[:10]


def test_object_that_is_shorter_than_its_limit_is_damage() -> None:
    chunks = ChunkCache(store_of(), chunk_bytes=300)
    with pytest.raises(TierCorrupt, match="has 1000 bytes"):
        chunks.read(KEY, 1100, 950, 100)


def test_store_that_gives_fewer_bytes_than_asked_for_is_not_believed() -> None:
    store = store_of()
    store.fail(truncated(), times=1)
    chunks = ChunkCache(store, chunk_bytes=100)
    with pytest.raises(TierCorrupt, match="expected 100 bytes from 0 on, the store gave"):
        chunks.read(KEY, 1000, 0, 10)
    assert chunks.read(KEY, 1000, 0, 10) == DATA[:10]


def test_interrupt_of_one_thread_is_an_error_of_the_others() -> None:
    store = store_of()
    chunks = ChunkCache(store, chunk_bytes=100)
    entered, released = threading.Event(), threading.Event()

    def interrupt() -> None:
        entered.set()
        released.wait(10)
        raise KeyboardInterrupt

    store.fail(slow(interrupt), times=1)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(chunks.read, KEY, 1000, 0, 10)
        assert entered.wait(10)
        second = pool.submit(chunks.read, KEY, 1000, 0, 10)
        while not second.running():
            pass
        released.set()
        with pytest.raises(KeyboardInterrupt):
            first.result()
        error = second.exception()
        assert error is None or "KeyboardInterrupt" in str(error)  # None: it came later
        assert not isinstance(error, KeyboardInterrupt)
    assert chunks.read(KEY, 1000, 0, 10) == DATA[:10]


# --- read-ahead


def numbers(store: FaultyTierStore, chunks: ChunkCache) -> list[int]:
    """Return which chunks of the object are cached."""
    return [number for number in range(10) if chunks.is_cached(KEY, number * 100, 100)]


def test_sequential_reader_has_the_next_chunks_fetched() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    for position in range(0, 300, 50):
        chunks.read(KEY, 1000, position, 50)
        later.run()
    assert numbers(store, chunks) == list(range(3 + CHUNKS_AHEAD))
    assert chunks.misses == 1


def test_reader_that_jumps_has_nothing_fetched_ahead() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    for position in (500, 200, 700):
        chunks.read(KEY, 1000, position, 50)
        later.run()
    assert numbers(store, chunks) == [2, 5, 7]


def test_reader_that_jumps_and_looks_for_its_place_has_nothing_fetched_ahead() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    for start in (500, 200, 700):
        chunks.read(KEY, 1000, start + 20, 10)
        for _ in range(2):
            chunks.read(KEY, 1000, start + 30, 100)
        later.run()
    assert numbers(store, chunks) == [2, 3, 5, 6, 7, 8]


def test_reader_that_goes_on_from_the_middle_has_the_next_chunks_fetched() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    for start in (330, 430):
        chunks.read(KEY, 1000, start, 10)
        chunks.read(KEY, 1000, start, 100)
        later.run()
    assert numbers(store, chunks) == [3, 4, 5, *range(6, 6 + CHUNKS_AHEAD)]


def test_chunks_of_a_long_read_are_fetched_at_the_same_time() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    read = threading.Event()
    store.fail(slow(lambda: later.run() if not read.is_set() else None), times=1)
    assert chunks.read(KEY, 1000, 500, 400) == DATA[500:900]
    assert chunks.misses == 1
    assert len(store.calls) == 4


def test_expected_chunks_are_fetched_but_the_first_up_to_the_end() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    chunks.expect(KEY, 450, 150, 1000)
    later.run()
    assert numbers(store, chunks) == [2, 3, 4]
    chunks.expect(KEY, 450, 150, 1)
    chunks.expect(KEY, 450, -500, 550)
    later.run()
    assert len(store.calls) == 3


def test_beginning_of_the_next_object_is_fetched_ahead_up_to_its_end() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    chunks.fetch_ahead(KEY, 250)
    later.run()
    assert chunks.is_cached(KEY, 0, 250)
    assert len(store.calls) == 3
    ChunkCache(store).fetch_ahead(KEY, 250)
    assert len(store.calls) == 3


def test_failure_ahead_is_not_reported_before_the_reader_comes_there() -> None:
    store, later = store_of(), Later()
    chunks = ChunkCache(store, chunk_bytes=100, run_later=later)
    chunks.read(KEY, 1000, 0, 10)
    store.fail(unavailable())
    later.run()
    with pytest.raises(TierUnavailable):
        chunks.read(KEY, 1000, 100, 10)


@pytest.mark.timeout(30)
def test_reader_never_waits_for_a_task_that_its_own_thread_should_run() -> None:
    store = store_of()
    with ThreadPoolExecutor(1) as pool:
        chunks = ChunkCache(store, chunk_bytes=10, memory_bytes=100, run_later=pool.submit)
        reads = [pool.submit(chunks.read, KEY, 1000, position, 120) for position in range(0, 1000, 40)]
        for position, read in zip(range(0, 1000, 40), reads, strict=True):
            assert read.result(timeout=10) == DATA[position : position + 120]


@pytest.mark.timeout(30)
def test_threads_that_want_one_chunk_make_one_request(tmp_path: Path) -> None:
    store = store_of()
    barrier = threading.Barrier(8)
    with ThreadPoolExecutor(8) as pool:
        chunks = ChunkCache(store, chunk_bytes=100, folder=tmp_path, disk_bytes=10_000, run_later=pool.submit)

        def read() -> bytes:
            barrier.wait(10)
            return chunks.read(KEY, 1000, 0, 1000)

        assert {each.result() for each in [pool.submit(read) for _ in range(8)]} == {DATA}
    assert len(store.calls) == 10
    assert chunks.fetched_bytes == 1000
    assert chunks._loading == {}


# --- disk


def disk_cache(folder: Path, store: FaultyTierStore, disk_bytes: int = 500) -> ChunkCache:
    """Return a cache that has one chunk in memory, so that the others come from the disk."""
    return ChunkCache(store, chunk_bytes=100, memory_bytes=0, folder=folder, disk_bytes=disk_bytes)


def test_chunks_on_disk_are_read_from_there(tmp_path: Path) -> None:
    store = store_of()
    chunks = disk_cache(tmp_path / "a/b", store)
    for _ in range(2):
        assert chunks.read(KEY, 1000, 0, 500) == DATA[:500]
    assert len(store.calls) == 5
    assert (chunks.hits, chunks.misses) == (5, 5)


def test_disk_is_bounded_and_keeps_what_was_used_last(tmp_path: Path) -> None:
    store = store_of()
    chunks = disk_cache(tmp_path, store, 300)
    for number in (0, 1, 2, 0, 3, 4):
        chunks.read(KEY, 1000, number * 100, 100)
    assert numbers(store, chunks) == [0, 3, 4]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) == 3 * 104


def test_chunks_of_an_earlier_process_are_removed_and_other_files_are_not(tmp_path: Path) -> None:
    disk_cache(tmp_path, store_of()).read(KEY, 1000, 0, 500)
    (tmp_path / "x.chunk.new").write_bytes(b"torn")
    (tmp_path / "notes.txt").write_bytes(b"mine")
    disk_cache(tmp_path, store_of())
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("content", [b"", b"abc", b"\0" * 104, None])
def test_damaged_or_missing_file_is_fetched_again(tmp_path: Path, content: bytes | None) -> None:
    store = store_of()
    chunks = disk_cache(tmp_path, store)
    chunks.read(KEY, 1000, 0, 300)
    for path in tmp_path.iterdir():
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    assert chunks.read(KEY, 1000, 0, 300) == DATA[:300]
    assert len(store.calls) == 6
    assert chunks.read(KEY, 1000, 0, 300) == DATA[:300]


def test_full_disk_is_reported_once_and_reads_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store = store_of()
    chunks = disk_cache(tmp_path, store)

    def fail(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    with caplog.at_level(logging.WARNING):
        assert chunks.read(KEY, 1000, 0, 300) == DATA[:300]
    assert [record.message for record in caplog.records] == [
        f"{tmp_path}: chunks of the tier are not kept on disk: [Errno 28] No space left on device"
    ]
    monkeypatch.undo()
    assert chunks.read(KEY, 1000, 0, 300) == DATA[:300]
    assert len(list(tmp_path.iterdir())) == 3


def test_folder_that_cannot_be_made_leaves_the_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    chunks = disk_cache(tmp_path / "file", store_of())
    assert chunks.read(KEY, 1000, 0, 300) == DATA[:300]
    assert len(caplog.records) == 1
