from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.records.any_format import iter_any_batches, iter_any_records
from kqueue.records.batch import BatchHeader
from kqueue.records.builder import build_batch
from kqueue.records.message_set import LegacyEntry, encode_set
from kqueue.records.record import Record

RECORDS = [Record(20 + number, 1000 + number, b"k%d" % number, b"v" * number, (("h", b"x"),)) for number in range(3)]


def bare(record: Record, *, time: int | None = None) -> Record:
    return record._replace(headers=(), sequence=-1, timestamp=record.timestamp if time is None else time)


def test_a_log_of_all_formats() -> None:
    parts = [
        encode_set(RECORDS[:1], 0),
        encode_set([RECORDS[1]], 1, 1),
        bytes(build_batch(RECORDS[2:], codec="zstd", base_sequence=0)),
    ]
    log = b"".join(parts)
    units = list(iter_any_batches(log))
    assert [type(unit) for _, unit in units] == [LegacyEntry, LegacyEntry, BatchHeader]
    assert [unit.magic for _, unit in units] == [0, 1, 2]
    assert [pos for pos, _ in units] == [0, len(parts[0]), len(parts[0] + parts[1])]
    assert [unit.size for _, unit in units] == [len(part) for part in parts]
    assert [unit.last_offset for _, unit in units] == [20, 21, 22]
    assert [unit.max_timestamp for _, unit in units] == [-1, 1001, 1002]
    assert list(iter_any_records(log)) == [bare(RECORDS[0], time=-1), bare(RECORDS[1]), RECORDS[2]._replace(sequence=0)]
    ends = [len(parts[0]), len(parts[0] + parts[1]), len(log)]
    for end in range(len(log)):
        assert (
            len(list(iter_any_batches(log, 0, end)))
            == len(list(iter_any_batches(log[:end])))
            == sum(edge <= end for edge in ends)
        )


def test_an_unknown_magic_in_a_log() -> None:
    for magic in (3, 128, 255):
        with pytest.raises(CorruptBatch, match="magic"):
            list(iter_any_batches(bytes(16) + bytes([magic]) + bytes(60)))
