from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.producer_state import BatchMetadata, EndTransactionMarker, ProducerStateEntry, ProducerStateManager
from kqueue.records.batch import COMMIT, read_header
from kqueue.tests.log.helpers import batch


@st.composite
def producer_states(draw: st.DrawFn) -> ProducerStateManager:
    producers = ProducerStateManager()
    for producer_id in draw(st.lists(st.integers(0, 2**63 - 1), unique=True, max_size=5)):
        producer = ProducerStateEntry(draw(st.integers(0, 2**15 - 1)))
        producer.last_timestamp = draw(st.integers(-1, 2**62))
        producer.coordinator_epoch = draw(st.integers(-1, 2**31 - 1))
        producer.transaction_offset = draw(st.integers(-1, 2**62))
        if draw(st.booleans()):
            producer.batches += (
                BatchMetadata(draw(st.integers(0, 2**31 - 1)), draw(st.integers(0, 2**62)), 0, producer.last_timestamp),
            )
        producers.add(producer_id, producer)
    return producers


@given(producer_states())
def test_snapshots_read_back(producers: ProducerStateManager) -> None:
    data = encode_snapshot(producers)
    again = decode_snapshot(data, 42)
    assert again.end_offset == 42
    assert encode_snapshot(again) == data
    assert again.first_open() == producers.first_open()
    assert {key: list(one.batches) for key, one in again.items()} == {
        key: list(one.batches) for key, one in producers.items()
    }


@given(producer_states(), st.data())
def test_any_flipped_bit_and_any_cut_is_noticed(producers: ProducerStateManager, data: st.DataObject) -> None:
    whole = bytearray(encode_snapshot(producers))
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(CorruptIndex):
        decode_snapshot(bytes(whole[:cut]), 0)
    whole[cut] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(CorruptIndex):
        decode_snapshot(bytes(whole), 0)


def test_only_the_last_batch_survives() -> None:
    producers = ProducerStateManager()
    for number in range(4):
        producers.update(read_header(batch(b"x", b"y", producer_id=3, epoch=1, base_sequence=2 * number)), 2 * number)
    again = decode_snapshot(encode_snapshot(producers), 8)
    assert [one[:3] for one in again.by_id[3].batches] == [(7, 7, 1)]
    assert again.check(read_header(batch(b"x", producer_id=3, epoch=1, base_sequence=8))) is None


def test_a_producer_that_only_ended_transactions_is_kept_with_its_epochs() -> None:
    producers = ProducerStateManager()
    producers.end_transaction(read_header(batch(b"x", producer_id=3, epoch=5)), EndTransactionMarker(COMMIT, 9), 0)
    again = decode_snapshot(encode_snapshot(producers), 1)
    assert (again.by_id[3].epoch, again.by_id[3].coordinator_epoch, list(again.by_id[3].batches)) == (5, 9, [])
