from __future__ import annotations

import random

import pytest

from kqueue.log.formats.checkpoints import CLEAN_SHUTDOWN, RECOVERY_POINTS, encode_offsets
from kqueue.log.formats.filenames import INDEX, SNAPSHOT, TXNINDEX
from kqueue.log.formats.transaction_index import ENTRY
from kqueue.log_tools import LogFolder
from kqueue.log_tools.transaction_outcomes import TransactionOutcomes
from kqueue.spark.source.transaction_index import LastStableOffset, aborted_transactions
from kqueue.storage import MemoryStorage
from kqueue.tests.log_tools.logs import (
    ABORT,
    COMMIT,
    FOLDER,
    append,
    content,
    end_transaction,
    flush,
    names,
    open_log,
    opened,
    replace,
)
from kqueue.tests.tables import for_each


def random_log(seed: int, count: int = 60) -> MemoryStorage:
    """TransactionOutcomes of three producers, woven into each other over many segments, and batches
    of nobody; some end nowhere.
    """
    storage, rng = MemoryStorage(), random.Random(seed)
    log = open_log(storage, segment_bytes=400, index_interval_bytes=150)
    sequences = {1: 0, 2: 0, 3: 0}
    begun: set[int] = set()
    for _ in range(count):
        producer = rng.choice((1, 2, 3))
        choice = rng.random()
        if choice < 0.15:
            append(log, b"of nobody")
        elif choice < 0.7 or producer not in begun:
            append(
                log, b"a", b"b", producer_id=producer, epoch=0, base_sequence=sequences[producer], transactional=True
            )
            sequences[producer] += 2
            begun.add(producer)
        else:
            end_transaction(log, rng.choice((ABORT, COMMIT)), producer)
            begun.discard(producer)
    flush(log)
    log.close()
    return storage


def put(storage: MemoryStorage, name: str, data: bytes) -> None:
    file = storage.open(name, create=True)
    file.append(data)
    file.close()


def recovered_to(storage: MemoryStorage, offset: int) -> None:
    put(storage, RECOVERY_POINTS, encode_offsets({("t", 0): offset}))


def unread(storage: MemoryStorage, suffix: str) -> None:
    for name in names(storage, suffix):
        storage.remove(f"{FOLDER}/{name}")


def check(log: LogFolder, rng: random.Random) -> None:
    """Every batch of some stretches is judged as by the headers of the whole log."""
    whole = TransactionOutcomes(log.batches(check=False))
    stable = log.end_offset if whole.first_unstable_offset is None else whole.first_unstable_offset
    for _ in range(20):
        start, end = sorted(rng.sample(range(stable + 1), 2))
        aborted = aborted_transactions(log, start, end)
        for batch in log.batches(start_offset=start, end_offset=end):
            assert batch.is_control or aborted.has(batch) == whole.is_aborted(batch), (start, end, batch)
            reported = aborted.between(max(start, batch.base_offset), batch.next_offset)
            if batch.is_transactional and not batch.is_control:
                assert any(
                    one[0] == batch.unit.producer_id and one[1] <= batch.base_offset for one in reported
                ) == whole.is_aborted(batch)  # type: ignore[union-attr]


@for_each("seed", range(6))
@for_each("without", [(), (SNAPSHOT,), (INDEX,), (TXNINDEX, INDEX)])
def test_aborted_transactions_are_found_with_and_without_indexes(seed: int, without: tuple[str, ...]) -> None:
    storage = random_log(seed)
    for suffix in without:
        unread(storage, suffix)
    log, rng = opened(storage), random.Random(seed)
    assert len(log.segments) > 8
    check(log, rng)
    recovered_to(storage, rng.randrange(log.end_offset))
    check(log, rng)
    put(storage, CLEAN_SHUTDOWN, b"{}")
    check(log, rng)


def test_scan_begins_where_the_indexes_end(monkeypatch: pytest.MonkeyPatch) -> None:
    storage = random_log(1)
    log = opened(storage)
    last = log.segments[-1].base_offset
    recovered_to(storage, last)
    begun: list[int] = []
    batches = LogFolder.batches

    def watched(log: LogFolder, *, start_offset: int, **others: object) -> object:
        begun.append(start_offset)
        return batches(log, start_offset=start_offset, **others)  # type: ignore[arg-type]

    monkeypatch.setattr(LogFolder, "batches", watched)
    aborted_transactions(log, 0, 30)
    assert begun == [], "below the recovery point the indexes tell"
    aborted_transactions(log, 0, last)
    assert begun == [last], "a transaction was open there"
    looked = LastStableOffset()
    looked.find(log, last, None)
    assert begun == [last, last], "from the newest snapshot on"
    looked.find(log, log.end_offset, None)
    assert begun == [last] * 3
    put(storage, CLEAN_SHUTDOWN, b"{}")
    aborted_transactions(log, 0, 30)
    assert begun == [last] * 3


UNKNOWN_VERSION = b"\0\1" + bytes(32)
ENDS_BEFORE_IT_BEGINS = ENTRY.pack(0, 1, 5, 3, 0)


@for_each("damage", [b"\0", UNKNOWN_VERSION, ENDS_BEFORE_IT_BEGINS])
def test_implausible_index_is_ignored(damage: bytes) -> None:
    storage = random_log(2)
    put(storage, CLEAN_SHUTDOWN, b"{}")
    for name in names(storage, TXNINDEX):
        replace(storage, name, damage + content(storage, name)[len(damage) if len(damage) > 1 else 0 :])
    for name in names(storage, SNAPSHOT)[::2]:
        replace(storage, name, content(storage, name)[:-1])
    check(opened(storage), random.Random(2))


@for_each("seed", range(4))
@for_each("has_snapshots", [True, False])
def test_last_stable_offset_is_found_with_and_without_snapshots(seed: int, has_snapshots: bool) -> None:
    storage = random_log(seed)
    if not has_snapshots:
        unread(storage, SNAPSHOT)
    log = opened(storage)
    ends = [segment.base_offset for segment in log.segments] + [log.end_offset]
    going_on, before = LastStableOffset(), 0
    for end in ends:
        stable = TransactionOutcomes(log.batches(end_offset=end, check=False)).first_unstable_offset
        expected = end if stable is None else min(end, stable)
        assert LastStableOffset().find(log, end, None) == expected
        assert LastStableOffset().find(log, end, before) == expected
        assert going_on.find(log, end, before) == expected
        before = expected
    assert going_on.find(log, ends[1], None) == LastStableOffset().find(log, ends[1], None), (
        "another log, which ends earlier"
    )
