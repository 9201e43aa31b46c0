from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, OffsetOutOfRange
from kqueue.base.sliced_task import run_to_end
from kqueue.log.formats.filenames import LOG, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.producer_snapshot import ENTRY, HEADER, encode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import Log
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import replay
from kqueue.records.batch import ABORT
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.storage import MemoryStorage
from kqueue.testing.tier_faults import FaultyTierStore, TierFault, missing, slow, truncated, unavailable
from kqueue.tests.log.helpers import START_MS, append, batch, end_transaction, open_log
from kqueue.tests.thorough import examples
from kqueue.tests.tier.drawn_logs import DrawnLog, drawn_logs
from kqueue.tests.tier.test_copier import transactional_log
from kqueue.tests.tier.tiered_logs import ORDERS, claim, copy_all, log_bytes, read_all, reader_of
from kqueue.tier import copier
from kqueue.tier.chunks import ChunkCache
from kqueue.tier.errors import ObjectNotFound, TierCorrupt, TierUnavailable
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.reader import TierReader
from kqueue.tier.stores.memory import MemoryTierStore


@pytest.fixture(autouse=True, scope="module")
def dense_indexes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copier, "INDEX_INTERVAL_BYTES", 200)
        yield


@st.composite
def tiered(draw: st.DrawFn) -> tuple[Log, MemoryTierStore]:
    """Draw a log and its tier, copied by two leaders with other segment borders."""
    drawn: DrawnLog = draw(drawn_logs())
    numbers = st.sets(st.integers(1, len(drawn.batches)), max_size=8)
    store, first, log = MemoryTierStore(), drawn.open(draw(numbers)), drawn.open(draw(numbers))
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, first, 50)
    copy_all(store, manifest, first, leader_epoch=50, limit=draw(st.integers(0, 5)))
    claim(manifest, log, 60)
    copy_all(store, manifest, log, leader_epoch=60, seed=1000, limit=draw(st.integers(1, 9)))
    return log, store


def all_aborted(log: Log) -> list[AbortedTxn]:
    return log.reader.aborted(0, log.end_offset)


@settings(max_examples=examples(300, 40), deadline=None)
@given(tiered(), st.data())
def test_tier_is_read_as_the_local_log_is(tiered: tuple[Log, MemoryTierStore], data: st.DataObject) -> None:
    log, store = tiered
    manifest = Manifest.open(store, ORDERS)
    end = manifest.end_offset
    chunks = ChunkCache(
        store, chunk_bytes=data.draw(st.integers(50, 2000)), memory_bytes=data.draw(st.integers(0, 3000))
    )
    reader = TierReader(store, chunks, index_bytes_max=data.draw(st.sampled_from([0, 10**6])))
    assert read_all(reader, manifest, max_bytes=data.draw(st.integers(1, 2000))) == log_bytes(log, end)
    transactions = all_aborted(log)
    for _ in range(5):
        offset, bound = data.draw(st.integers(0, end - 1)), data.draw(st.integers(0, 1500))
        read = reader.read(manifest, offset, bound, end_offset=end, read_committed=True)
        assert log_bytes(log, end, offset).startswith(read.records)
        assert read.records or read.next_offset > offset or bound == 0
        overlapping = {
            each for each in transactions if offset <= each.last_offset and each.first_offset < read.next_offset
        }
        if read.records:
            found = set(read.aborted)
            if read.continues_local:
                found |= set(log.reader.aborted(end, log.end_offset)) & overlapping
            assert found == overlapping


@settings(max_examples=examples(300, 40), deadline=None)
@given(tiered(), st.data())
def test_tier_is_looked_up_as_the_local_log_is(tiered: tuple[Log, MemoryTierStore], data: st.DataObject) -> None:
    log, store = tiered
    manifest, reader = Manifest.open(store, ORDERS), reader_of(store)
    end = manifest.end_offset
    for _ in range(5):
        time_ms, start = START_MS + data.draw(st.integers(-60, 60)), data.draw(st.integers(0, end))
        local = run_to_end(log.reader.offset_for_time(time_ms, start, end, log.epochs))
        assert reader.offset_for_time(manifest, time_ms, start, end) == local
        offset = data.draw(st.sampled_from(borders(log, end)))
        epochs = LeaderEpochCache()
        for epoch, first in log.epochs.entries():
            epochs.assign(epoch, first)
        epochs.truncate_from_end(offset)
        assert reader.epochs_at(manifest, offset) == epochs.entries()
        producers = ProducerStateManager()
        replay(list(log.segments), producers, offset)
        assert rows(reader.producers_at(manifest, offset)) == rows(producers)


def borders(log: Log, end: int) -> list[int]:
    """Return where batches begin or end, from 0 up to `end`."""
    offsets = [0]
    while offsets[-1] < end:
        offsets.append(log.read(offsets[-1], 1, end_offset=end).next_offset)
    return offsets


def rows(producers: ProducerStateManager) -> list[tuple[int, ...]]:
    return sorted(ENTRY.iter_unpack(encode_snapshot(producers)[HEADER.size :]))


BATCH_BYTES = 170


def small_tier(**settings: Any) -> tuple[Log, FaultyTierStore, Manifest]:
    """Return a log of five segments of ten batches, and the tier that has them."""
    log = open_log(index_interval_bytes=0, **settings)
    for number in range(50):
        append(log, b"%02d" % number * 50, leader_epoch=number // 20, time_ms=START_MS + number)
        if number % 10 == 9:
            log.roll()
    store = FaultyTierStore(MemoryTierStore())
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, log, 3)
    copy_all(store, manifest, log, leader_epoch=3)
    store.calls.clear()
    return log, store, manifest


# --- bounds


def test_offset_outside_of_the_tier_is_out_of_range() -> None:
    _, store, manifest = small_tier()
    manifest.raise_start(3, 15)
    reader = reader_of(store)
    assert reader.read(manifest, 15, 100, end_offset=50).records
    for offset in (0, 14, 50, 60):
        with pytest.raises(OffsetOutOfRange, match=f"offset {offset} is not within 15 and 50 of the tier"):
            reader.read(manifest, offset, 100, end_offset=50)
    with pytest.raises(OffsetOutOfRange, match="the tier ends at 50, before 51"):
        reader.producers_at(manifest, 51)
    assert reader.epochs_at(manifest, 0) == []
    assert reader.epochs_at(manifest, 30) == [(0, 15), (1, 20)]


def test_read_ends_at_its_bound_and_before_what_does_not_fit() -> None:
    _, store, manifest = small_tier()
    reader = reader_of(store)
    assert reader.read(manifest, 3, 1 << 20, end_offset=5).next_offset == 5
    assert reader.read(manifest, 5, 1 << 20, end_offset=5) == (b"", 5, [], False)
    assert reader.read(manifest, 3, 10, end_offset=50, min_one_batch=False) == (b"", 3, [], False)
    assert reader.read(manifest, 3, 10, end_offset=50).next_offset == 4


def test_gap_between_two_segments_is_passed_over() -> None:
    store = FaultyTierStore(MemoryTierStore())
    manifest = Manifest.open(store, ORDERS)
    log = small_tier()[0]
    claim(manifest, log, 3)
    first, _, *others = copy_all(store, manifest, log, leader_epoch=3)
    manifest.rebuild([first, *others], 3)
    reader = reader_of(store)
    read = reader.read(manifest, 12, 1 << 20, end_offset=50)
    assert (read.next_offset, read.records) == (30, log.read(20, 1 << 20, end_offset=30).read())
    assert reader.read(manifest, 12, 1 << 20, end_offset=20) == (b"", 20, [], False)
    assert rows(reader.producers_at(manifest, 15)) == []


def test_part_that_a_log_agrees_with_has_no_record_and_no_marker_of_another() -> None:
    store = FaultyTierStore(MemoryTierStore())
    manifest = Manifest.open(store, ORDERS)
    log = transactional_log()
    claim(manifest, log, 3)
    copy_all(store, manifest, log, leader_epoch=3)
    reader, lineage = reader_of(store), Lineage([(0, 0), (1, 2)], 3, 3)
    whole = reader.read(manifest, 2, 1 << 20, end_offset=6, read_committed=True)
    part = manifest.agreeing(lineage)
    read = reader.read(part, 2, 1 << 20, end_offset=6, read_committed=True)
    assert (whole.next_offset, read.next_offset, part.end_offset) == (4, 3, 3)
    assert whole.aborted, "a marker behind the end of the part aborts what is in it"
    assert (read.aborted, read.continues_local) == ([], True), "the log here says what became of it"
    manifest.claim(3, lineage)
    assert manifest.root.segments == part.root.segments
    assert reader.read(manifest, 2, 1 << 20, end_offset=6, read_committed=True) == read


def test_offsets_without_batches_at_the_end_of_a_segment_are_passed_over() -> None:
    drawn = DrawnLog()
    drawn.add(batch(b"a"), 0)
    drawn.add(batch(b"b"), 0, gap=5)
    local = drawn.open({1})
    store = MemoryTierStore()
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, local, 3)
    copy_all(store, manifest, local, leader_epoch=3)
    assert reader_of(store).read(manifest, 1, 100, end_offset=7).next_offset > 1
    assert read_all(reader_of(store), manifest) == b"".join(drawn.batches)


def test_old_formats_are_read_and_looked_up() -> None:
    for magic in (0, 1):
        storage = MemoryStorage()
        storage.make_folder("t-0")
        records = [Record(offset, START_MS + offset if magic else -1, b"k", b"v" * 40, ()) for offset in range(10)]
        data = b"".join(encode_set([record], magic) for record in records[:5])
        data += encode_set(records[5:], magic, codec_id=1)
        storage.write_atomic(f"t-0/{file_name(0, LOG)}", data)
        log = open_log(storage)
        append(log, b"new", leader_epoch=2, time_ms=START_MS + 20)
        log.roll()
        store = MemoryTierStore()
        manifest = Manifest.open(store, ORDERS)
        claim(manifest, log, 3)
        [segment] = copy_all(store, manifest, log, leader_epoch=3)
        assert segment.epochs == ((2, 10),)
        claim(manifest, log, 4)
        assert manifest.end_offset == 11
        reader = reader_of(store)
        assert read_all(reader, manifest).startswith(data)
        found = reader.offset_for_time(manifest, START_MS + 7, 0, 11)
        assert found is not None
        assert found.offset == (7 if magic else 10)


# --- transactions


def test_aborted_transactions_of_a_cut_segment_are_left_to_the_new_leader(caplog: pytest.LogCaptureFixture) -> None:
    log = open_log()
    append(log, b"a", producer_id=5, epoch=0, base_sequence=0, transactional=True, leader_epoch=1)
    append(log, b"b", producer_id=5, epoch=0, base_sequence=1, transactional=True, leader_epoch=1)
    end_transaction(log, ABORT, 5, leader_epoch=2)
    log.roll()
    store = MemoryTierStore()
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, log, 3)
    copy_all(store, manifest, log, leader_epoch=3)
    reader = reader_of(store)
    read = reader.read(manifest, 0, 1 << 20, end_offset=3, read_committed=True)
    assert (read.aborted, read.continues_local) == ([AbortedTxn(5, 0, 2, 3)], False)
    log.truncate_to(2)
    claim(manifest, log, 4)
    assert manifest.end_offset == 2
    read = reader.read(manifest, 0, 1 << 20, end_offset=2, read_committed=True)
    assert (read.aborted, read.continues_local) == ([], True)
    producers = reader.producers_at(manifest, 2)
    assert producers.first_open() == 0
    assert not caplog.records  # the batches behind the cut are no damage


# --- faults


def test_deleted_object_is_not_found_also_when_its_beginning_was_read() -> None:
    _, store, manifest = small_tier()
    reader = reader_of(store)
    reader.read(manifest, 0, 10, end_offset=50)
    for entry in list(store.list(ORDERS.prefix)):
        if "/segments/" in entry.key:
            store.delete([entry.key])
    with pytest.raises(ObjectNotFound):
        reader.read(manifest, 15, 10, end_offset=50)
    reader.chunks.forget(next(manifest.segments()).key(ORDERS))
    with pytest.raises(ObjectNotFound):
        reader.read(manifest, 9, 10, end_offset=50)


def test_unavailable_store_is_reported_and_the_next_read_works() -> None:
    log, store, manifest = small_tier()
    reader = reader_of(store)
    for _ in range(3):
        store.fail(unavailable("get_range"), times=1)
        with pytest.raises(TierUnavailable):
            reader.read(manifest, 0, 1 << 20, end_offset=50)
    assert reader.read(manifest, 0, 1 << 20, end_offset=50).records == log.read(0, 1 << 20, end_offset=50).read()


def test_store_that_gives_too_few_bytes_is_reported_and_the_next_read_works() -> None:
    log, store, manifest = small_tier()
    for number in range(20):
        reader = reader_of(store)
        store.fail(missing("get_range"), times=1) if number % 2 else store.fail(truncated(), times=number // 4)
        for _ in range(number // 4 + 1):
            with contextlib.suppress(TierCorrupt, ObjectNotFound):
                reader.read(manifest, 0, 1 << 20, end_offset=50)
        store.mend()
        assert reader.read(manifest, 0, 1 << 20, end_offset=50).records == log_bytes(log, 10)


class FlippingStore(FaultyTierStore):
    """Flips a bit at `position` of the first segment, so many times that `get_range` gives it."""

    position, times = 0, 0

    def get_range(self, key: str, start: int, length: int) -> bytes:
        data = bytearray(super().get_range(key, start, length))
        if self.times and f"/{0:020d}-" in key and start <= self.position < start + length:
            self.times -= 1
            data[self.position - start] ^= 0x20
        return bytes(data)


def flipping(position: int, times: int) -> tuple[Log, FlippingStore, Manifest]:
    log, store, _ = small_tier()
    flipped = FlippingStore(store.inner)
    flipped.position, flipped.times = position, times
    return log, flipped, Manifest.open(flipped, ORDERS)


@pytest.mark.parametrize("position", [*range(16), *range(16, 1730, 37)])
def test_bytes_that_were_damaged_on_the_way_are_fetched_once_more(
    position: int, caplog: pytest.LogCaptureFixture
) -> None:
    if position % BATCH_BYTES in range(12, 16):
        return  # the leader epoch, which no checksum covers
    log, store, manifest = flipping(position, 1)
    assert read_all(reader_of(store), manifest) == log_bytes(log, 50)
    assert store.times == 0
    assert not caplog.records


def test_damaged_batch_is_not_served_and_the_others_are(caplog: pytest.LogCaptureFixture) -> None:
    log, store, manifest = flipping(4 * BATCH_BYTES + 100, 10**6)  # in the batch of offset 4
    reader = reader_of(store)
    for _ in range(2):
        read = reader.read(manifest, 0, 1 << 20, end_offset=50)
        assert (read.next_offset, read.records) == (4, log.read(0, 1 << 20, end_offset=4).read())
        with pytest.raises(CorruptBatch):
            reader.read(manifest, 4, 1 << 20, end_offset=50)
        read = reader.read(manifest, 5, 1 << 20, end_offset=50)
        assert read.records == log.read(5, 1 << 20, end_offset=10).read()
        assert reader.read(manifest, 10, 1 << 20, end_offset=50).next_offset == 20
    store.calls.clear()
    for _ in range(5):
        with pytest.raises(CorruptBatch):
            reader.read(manifest, 4, 1 << 20, end_offset=50)
    assert len(store.calls) <= 20  # not all again each time
    assert len(caplog.records) <= 3


def test_chunk_that_is_damaged_when_it_is_fetched_again_is_not_served() -> None:
    log, store, manifest = flipping(300, 0)
    reader = TierReader(store, ChunkCache(store, chunk_bytes=400, memory_bytes=0))
    local = log_bytes(log, 10)
    for times in (0, 2, 2):  # in the scan of headers, and in the read itself
        store.times = times
        assert reader.read(manifest, 0, 1 << 20, end_offset=50).records == local
        assert store.times == 0


def test_damaged_indexes_are_refused() -> None:
    _, store, manifest = small_tier()
    [first, *_] = manifest.segments()
    flipped = FlippingStore(store.inner)
    flipped.position, flipped.times = first.size + 3, 1
    reader = reader_of(flipped)
    assert reader.read(manifest, 0, 10, end_offset=50).records
    flipped.times = 2
    with pytest.raises(TierCorrupt, match="the checksum of its indexes is wrong"):
        reader_of(flipped).read(manifest, 0, 10, end_offset=50)


def test_failure_to_fetch_the_next_segment_ahead_does_not_fail_the_read() -> None:
    _, store, manifest = small_tier()
    chunks = ChunkCache(store, run_later=lambda task: task())
    reader = TierReader(store, chunks)
    reader.read(manifest, 0, 10, end_offset=50)
    store.fail(TierFault("get*", "*", before=_raise_unavailable))
    assert reader.read(manifest, 0, 1 << 20, end_offset=50).next_offset == 10
    store.mend()
    reader.read(manifest, 0, 1 << 20, end_offset=50)
    following = list(manifest.segments())[1]
    assert chunks.is_cached(following.key(ORDERS), 0, following.size)


def tier_of_large_batches() -> tuple[FaultyTierStore, Manifest]:
    """Return a tier of one segment, with twenty batches of 100 KB: more than a search reads."""
    log = open_log()
    for _ in range(20):
        append(log, b"v" * 100_000)
    log.roll()
    store = FaultyTierStore(MemoryTierStore())
    manifest = Manifest.open(store, ORDERS)
    claim(manifest, log, 0)
    copy_all(store, manifest, log)
    return store, manifest


def test_all_chunks_of_a_read_are_asked_for_before_the_first_is_there() -> None:
    store, manifest = tier_of_large_batches()
    later: list[Callable[[], object]] = []
    chunks = ChunkCache(store, chunk_bytes=100_000, run_later=later.append)
    reader = TierReader(store, chunks)
    reader.read(manifest, 0, 1, end_offset=20)
    [segment] = manifest.segments()
    chunks.forget(segment.key(ORDERS))
    later.clear()
    store.fail(unavailable("get*"), times=1)
    with pytest.raises(TierUnavailable):
        reader.read(manifest, 5, 400_000, end_offset=20)
    for task in later:
        task()
    assert chunks.is_cached(segment.key(ORDERS), 600_000, 300_000)


def test_read_of_a_random_place_fetches_what_it_returns() -> None:
    store, manifest = tier_of_large_batches()
    chunks = ChunkCache(store, chunk_bytes=200_000, run_later=lambda task: task())
    reader = TierReader(store, chunks)
    for offset in (7, 15, 3):
        fetched = chunks.fetched_bytes
        read = reader.read(manifest, offset, 150_000, end_offset=20)
        assert read.next_offset == offset + 1
        assert chunks.fetched_bytes - fetched <= 2 * 200_000


def _raise_unavailable(call: object) -> None:
    raise TierUnavailable(f"{call}")


def test_indexes_in_memory_are_bounded() -> None:
    _, store, manifest = small_tier()
    reader = TierReader(store, ChunkCache(store), index_bytes_max=10_000)
    read_all(reader, manifest)
    assert len(reader._open) == 2
    assert reader._index_bytes == sum(opened.size for opened in reader._open.values()) <= 10_000


# --- threads


@pytest.mark.timeout(60)
def test_threads_read_the_same_as_one(tmp_path: Any) -> None:
    log, store, manifest = small_tier()
    local = {offset: log.read(offset, 700, end_offset=50).read() for offset in range(50)}
    with ThreadPoolExecutor(2) as ahead, ThreadPoolExecutor(8) as pool:
        chunks = ChunkCache(
            store, chunk_bytes=100, memory_bytes=500, folder=tmp_path, disk_bytes=3000, run_later=ahead.submit
        )
        reader = TierReader(store, chunks, index_bytes_max=10_000)

        def read(seed: int) -> None:
            rng = random.Random(seed)
            for _ in range(15):
                offset = rng.randrange(50)
                assert reader.read(manifest, offset, 700, end_offset=50).records == local[offset]

        for result in [pool.submit(read, seed) for seed in range(6)]:
            result.result(timeout=30)


@pytest.mark.timeout(30)
def test_reader_that_waits_for_a_slow_store_holds_up_no_other() -> None:
    _, store, manifest = small_tier()
    reader = reader_of(store)
    read_all(reader, manifest)
    reader.chunks.forget(next(manifest.segments()).key(ORDERS))
    entered, also_entered, released = threading.Event(), threading.Event(), threading.Event()
    store.fail(slow(lambda: (entered.set(), released.wait(10))), times=1)
    store.fail(slow(also_entered.set))
    with ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(reader.read, manifest, 9, 10, end_offset=50)]
        try:
            assert entered.wait(10)
            assert reader.read(manifest, 20, 10, end_offset=50).next_offset == 21
            waiting.append(pool.submit(reader.read, manifest, 0, 10, end_offset=50))  # of the same segment
            assert also_entered.wait(10)
        finally:
            released.set()
        assert [each.result().next_offset for each in waiting] == [10, 1]
