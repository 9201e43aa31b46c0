from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import MalformedMessage
from kqueue.records.batch import iter_batches, iter_records
from kqueue.tests.golden import VERSIONS, data_folder
from kqueue.tests.tables import for_each
from kqueue.transactions import records
from kqueue.transactions.transaction_metadata import TransactionMetadata
from kqueue.transactions.transaction_state import STATE_IDS, TransactionState

ids = st.integers(-1, 2**63 - 1)
epochs = st.integers(-1, 2**15 - 1)
metadata = st.builds(
    TransactionMetadata,
    st.just("tx"),
    ids,
    ids,
    ids,
    epochs,
    st.just(-1),
    st.integers(0, 2**31 - 1),
    st.sampled_from(TransactionState),
    st.frozensets(st.tuples(st.sampled_from(["a", "b.c", "größe"]), st.integers(0, 9)), max_size=8),
    ids,
    ids,
    st.integers(0, 2),
)


@given(metadata, st.integers(1, 2))
def test_a_value_that_was_written_is_read(value: TransactionMetadata, version: int) -> None:
    if value.state is TransactionState.EMPTY:
        value = value._replace(partitions=frozenset())
    assert records.read_value("tx", records.transaction_value(value, version)) == value


@given(metadata)
def test_version_0_has_no_later_fields(value: TransactionMetadata) -> None:
    read = records.read_value("tx", records.transaction_value(value, 0))
    assert (read.previous_producer_id, read.next_producer_id, read.client_version) == (-1, -1, 0)
    assert (read.producer, read.state, read.updated_ms) == (value.producer, value.state, value.updated_ms)


@given(st.text(max_size=50))
def test_a_key_that_was_written_is_read(transactional_id: str) -> None:
    if transactional_id.isascii():
        assert records.read_key(records.transaction_key(transactional_id)) == transactional_id


@for_each("version", VERSIONS)
def test_kafkas_records_are_written_byte_for_byte(version: str) -> None:
    """A record that Kafka wrote, read and written again, has the same bytes."""
    count = 0
    for file in data_folder(version).glob("__transaction_state-*/*.log"):
        data = file.read_bytes()
        for position, _ in iter_batches(data):
            for record in iter_records(data, position):
                assert record.key is not None
                assert record.value is not None
                transactional_id = records.read_key(record.key)
                assert transactional_id == "tx-1"
                assert records.transaction_key(transactional_id) == record.key
                value = records.read_value(transactional_id, record.value)
                value_version = int.from_bytes(record.value[:2], "big")
                assert records.transaction_value(value, value_version) == record.value
                count += 1
    assert count > 30


def test_an_unknown_type_of_key_is_skipped_and_damage_is_reported() -> None:
    assert records.read_key(b"\x00\x01whatever") is None
    for damaged in (b"", b"\x00", b"\x00\x00\x00"):
        with pytest.raises(MalformedMessage):
            records.read_key(damaged)
    good = records.transaction_value(TransactionMetadata("tx", 1, state=TransactionState.ONGOING), 1)
    with pytest.raises(MalformedMessage, match="version from 0 to 1, found 2"):
        records.read_value("tx", b"\x00\x02" + good[2:])
    with pytest.raises(MalformedMessage):
        records.read_value("tx", good[:-1])
    with pytest.raises(MalformedMessage, match="found 8"):
        records.read_value("tx", good[:16] + bytes([len(STATE_IDS)]) + good[17:])


def test_partitions_are_grouped_by_topic() -> None:
    grouped = records.partitions_by_topic({("b", 1), ("a", 2), ("b", 0)})
    assert [(topic.topic, topic.partition_ids) for topic in grouped] == [("a", [2]), ("b", [0, 1])]
