"""Appends on a full disk: refused as a whole, and possible again once there is room."""

from __future__ import annotations

import pytest

from kqueue.base.errors import DiskFull, OutOfOrderSequence, StorageUnavailable
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.log import Log
from kqueue.log.log_state import LogState
from kqueue.records.batch import ABORT
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.log.helpers import append, check_log, end_transaction, flush, open_log, read_values
from kqueue.tests.thorough import parts

APPENDED = 40


@pytest.mark.long
@parts(10)
def test_an_append_refused_by_a_full_disk_leaves_no_trace(part: slice) -> None:
    """With any amount of room in turn: in the middle of a batch, of an index entry, of a roll. It
    goes on once there is room.
    """
    whole = FaultyStorage()
    fill_with_rolls(open_log(whole, segment_bytes=400, index_interval_bytes=0), 0)
    size = sum(entry.size for entry in whole.list("t-0"))
    refused = 0
    for room in range(0, size, 7)[part]:
        storage = FaultyStorage(capacity_bytes=room)
        log = open_log(storage, segment_bytes=400, index_interval_bytes=0)
        with pytest.raises(DiskFull, match="ENOSPC"):
            fill_with_rolls(log, 0)
        assert log.health.state is LogState.ONLINE
        end = log.end_offset
        refused += 1
        epochs = log.epochs.entries()
        with pytest.raises(DiskFull):
            append(log, b"y" * 1000, producer_id=1, epoch=0, base_sequence=end, leader_epoch=9)
        assert (log.end_offset, log.epochs.entries()) == (end, epochs)
        storage.capacity_bytes = None
        fill_with_rolls(log, end)
        flush(log)
        assert read_values(log) == [b"%03d" % number * 20 for number in range(APPENDED)]
        again = open_log(storage, segment_bytes=400, index_interval_bytes=0)
        assert read_values(again) == read_values(log)
        assert again.damage == []
        check_log(again)
    assert refused > 20


def test_batch_behind_one_without_room_is_no_sequence_gap() -> None:
    """It is refused for the same reason, also if there is room again, until that batch has come. In
    a new epoch, too.
    """
    storage = FaultyStorage()
    log = open_log(storage)
    append(log, b"a", producer_id=1, epoch=0, base_sequence=0)
    for epoch, first in ((0, 1), (1, 0)):
        storage.capacity_bytes = 0
        with pytest.raises(DiskFull):
            append(log, b"b", producer_id=1, epoch=epoch, base_sequence=first)
        storage.capacity_bytes = None
        for number in (first + 1, first + 2):
            with pytest.raises(StorageUnavailable, match="no room for a batch before the one with sequence"):
                append(log, b"c", producer_id=1, epoch=epoch, base_sequence=number)
        for number in (first, first + 1, first + 2):
            append(log, b"%d" % number, producer_id=1, epoch=epoch, base_sequence=number)
        with pytest.raises(OutOfOrderSequence):
            append(log, b"d", producer_id=1, epoch=epoch, base_sequence=first + 4)
    assert read_values(log) == [b"a", b"1", b"2", b"3", b"0", b"1", b"2"]
    assert log.health.failure is None


@parts(6)
def test_a_full_disk_leaves_no_abort_marker_without_its_index_entry(part: slice) -> None:
    """With any amount of room in turn, as above: the log stays writable, and once there is room
    the transactions end as if nothing had been.
    """
    whole = FaultyStorage()
    fill_with_transactions(open_log(whole), 0)
    size = sum(entry.size for entry in whole.list("t-0"))
    refused_by_index = refused_by_log = 0
    for room in range(size)[part]:
        storage = FaultyStorage(capacity_bytes=room)
        log = open_log(storage)
        with pytest.raises(DiskFull) as full:
            fill_with_transactions(log, 0)
        refused_by_index += "txnindex" in str(full.value)
        refused_by_log += "txnindex" not in str(full.value) and log.end_offset % 2 == 1
        assert log.health.state is LogState.ONLINE
        assert len(log.segments.active.txnindex.read()) == log.end_offset // 2
        storage.capacity_bytes = None
        fill_with_transactions(log, log.end_offset)
        assert log.reader.aborted(0, TRANSACTIONS * 2) == [
            AbortedTxn(1, offset, offset + 1, offset + 2) for offset in range(0, TRANSACTIONS * 2, 2)
        ]
        flush(log)
        check_log(log)
    assert min(refused_by_index, refused_by_log) > 3


TRANSACTIONS = 4


def fill_with_transactions(log: Log, first: int) -> None:
    for offset in range(first, 2 * TRANSACTIONS):
        if offset % 2:
            end_transaction(log, ABORT, 1)
        else:
            append(log, b"a", producer_id=1, epoch=0, base_sequence=offset // 2, transactional=True)


def fill_with_rolls(log: Log, first: int) -> None:
    for number in range(first, APPENDED):
        append(log, b"%03d" % number * 20, producer_id=1, epoch=0, base_sequence=number)
