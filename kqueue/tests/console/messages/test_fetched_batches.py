from __future__ import annotations

import pytest

from kqueue.base.errors import CorruptBatch, DecompressedTooLarge
from kqueue.client import AbortedTxn
from kqueue.console.messages.fetched_batches import RecordBatch, Unreadable, decoded_batches
from kqueue.records.batch import ABORT, COMMIT, control_key_value
from kqueue.records.builder import build_batch
from kqueue.records.codecs import CODECS
from kqueue.records.record import Record
from kqueue.tests.console.messages.support import batch, fetched


def values(data: bytes, *aborted: AbortedTxn, is_committed: bool = False) -> list[bytes | None]:
    read: list[bytes | None] = []
    for each in decoded_batches(fetched(data, aborted=aborted), is_committed=is_committed):
        assert isinstance(each, RecordBatch)
        read += [record.value for record in each.records]
    return read


@pytest.mark.parametrize("codec", CODECS.names())
def test_batches_of_every_codec_are_decoded(codec: str) -> None:
    assert values(batch([b"a", b"b"], codec=codec) + batch([b"c"], 2)) == [b"a", b"b", b"c"]


def marker(offset: int, producer: int, kind: int) -> bytes:
    key, value = control_key_value(kind, 0)
    return bytes(
        build_batch([Record(offset, 0, key, value)], producer_id=producer, epoch=0, control=True, transactional=True)
    )


def transactional(value: bytes, offset: int, producer: int) -> bytes:
    return batch([value], offset, producer_id=producer, epoch=0, base_sequence=0, transactional=True)


TRANSACTIONS = b"".join((
    transactional(b"aborted", 0, 1), transactional(b"committed", 1, 2), marker(2, 1, ABORT), marker(3, 2, COMMIT),
    transactional(b"later", 4, 1), batch([b"plain"], 5),
))  # fmt: skip


def test_records_of_aborted_transactions_are_left_out_if_asked() -> None:
    aborted = AbortedTxn(1, 0)
    assert values(TRANSACTIONS, aborted, is_committed=True) == [b"committed", b"later", b"plain"]
    assert values(TRANSACTIONS, aborted) == [b"aborted", b"committed", b"later", b"plain"]


def test_markers_have_no_records_but_their_offsets_are_passed() -> None:
    [only] = decoded_batches(fetched(marker(7, 1, ABORT)), is_committed=False)
    assert isinstance(only, RecordBatch)
    assert (only.next_offset, list(only.records)) == (8, [])


def test_a_wrong_checksum_takes_only_its_batch() -> None:
    broken = bytearray(batch([b"a"]))
    broken[-1] ^= 1
    first, second = decoded_batches(fetched(bytes(broken) + batch([b"b"], 1)), is_committed=False)
    assert isinstance(first, RecordBatch)
    assert isinstance(second, RecordBatch)
    with pytest.raises(CorruptBatch, match="checksum"):
        list(first.records)
    assert [record.value for record in second.records] == [b"b"]


def test_bytes_that_are_no_batches_are_unreadable() -> None:
    batches = list(decoded_batches(fetched(b"\xff" * 200), is_committed=False))
    assert [type(each) for each in batches] == [Unreadable]


def test_a_batch_that_decompresses_to_too_much_is_refused() -> None:
    [only] = decoded_batches(fetched(batch([b"a" * 10_000], codec="gzip")), is_committed=False, limit_bytes=1_000)
    assert isinstance(only, RecordBatch)
    with pytest.raises(DecompressedTooLarge):
        list(only.records)
