"""Registrations read what they wrote, and refuse damaged records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import StorageFailed
from kqueue.replication.registrations import (
    NO_LEADER,
    BrokerRegistration,
    Endpoint,
    PartitionRegistration,
    TopicRegistration,
)
from kqueue.tests.tables import for_each

node = st.integers(-1, 2**31 - 1)
epoch = st.integers(0, 2**31 - 1)


@st.composite
def partitions_of(draw: st.DrawFn) -> PartitionRegistration:
    replicas = tuple(draw(st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=5)))
    some = st.lists(st.sampled_from(replicas), unique=True).map(tuple) if replicas else st.just(())
    isr = draw(some)
    leader = draw(st.sampled_from((NO_LEADER, *isr)))
    return PartitionRegistration(
        replicas, isr, leader, draw(epoch), draw(epoch), draw(some), draw(node), draw(some), draw(some),
        recovering=draw(st.booleans()),
    )  # fmt: skip


partitions = partitions_of()
endpoints = st.dictionaries(st.text(max_size=9), st.builds(Endpoint, st.text(), st.integers(0, 65535), st.text()))
brokers = st.builds(
    BrokerRegistration,
    st.integers(0, 2**31 - 1),
    epoch,
    st.text(),
    endpoints,
    fenced=st.booleans(),
    shutting_down=st.booleans(),
    clean=st.booleans(),
    rack=st.none() | st.text(),
    release=st.text(),
    features=st.dictionaries(st.text(), st.tuples(epoch, epoch), max_size=2),
)


@given(
    st.binary(min_size=16, max_size=16),
    st.dictionaries(st.text(), st.text(), max_size=3),
    st.lists(partitions).map(tuple),
)
def test_topic_round_trip(id: bytes, configs: dict[str, str], of_topic: tuple[PartitionRegistration, ...]) -> None:
    topic = TopicRegistration(id, configs, of_topic)
    assert TopicRegistration.from_bytes("orders", topic.to_bytes()) == topic


@given(brokers)
def test_broker_round_trip(broker: BrokerRegistration) -> None:
    assert BrokerRegistration.from_bytes(broker.id, broker.to_bytes()) == broker


def test_a_number_of_partitions_stands_for_the_sole_replica() -> None:
    record = json.dumps({"id": "AAAAAAAAAAAAAAAAAAAAAQ", "configs": {}, "partitions": 3}).encode()
    sole = PartitionRegistration((7,), (7,), 7, 4)
    assert TopicRegistration.from_bytes("orders", record, sole).partitions == (sole,) * 3
    with pytest.raises(StorageFailed, match="/topics/orders can't be read"):
        TopicRegistration.from_bytes("orders", record)


@for_each(
    "record",
    [
        b"",
        b"[]",
        b'{"id": "x", "configs": {}, "partitions": []}',
        b'{"id": "AAAAAAAAAAAAAAAAAAAAAQ", "configs": {}, "partitions": [[[0], [0], 0]]}',
        b'{"id": "AAAAAAAAAAAAAAAAAAAAAQ", "configs": {}, "partitions": [[[0], [0], 0, 0, 0, {"more": 1}]]}',
    ],
)
def test_damaged_records_are_named(record: bytes) -> None:
    with pytest.raises(StorageFailed, match="/topics/orders can't be read"):
        TopicRegistration.from_bytes("orders", record)


@for_each(
    "partition, why",
    [
        (([1, 2], [1, 3], 1, 0, 0), r"isr names \[3\], and the replicas are \[1, 2\]"),
        (([1, 2], [1], 2, 0, 0), r"leader 2 is not in the in-sync set \[1\]"),
        (([1, 2, 1], [1], 1, 0, 0), r"a node is twice in replicas \[1, 2, 1\]"),
        (([1, 2], [1], 1, 0, 0, {"elr": [3]}), r"elr names \[3\]"),
        (([1, 2], [1], 1, 0, 0, {"adding": [3]}), r"adding names \[3\]"),
        (([1, 2], [1], 1, 0, 0, {"removing": [3]}), r"removing names \[3\]"),
    ],
)
def test_a_partition_whose_sets_name_other_nodes_than_its_replicas_is_refused(
    partition: tuple[object, ...], why: str
) -> None:
    record = json.dumps({"id": "AAAAAAAAAAAAAAAAAAAAAQ", "configs": {}, "partitions": [partition]}).encode()
    with pytest.raises(StorageFailed, match=f"/topics/orders can't be read: .*{why}"):
        TopicRegistration.from_bytes("orders", record)


@for_each(
    "record",
    [
        b"",
        b"{}",
        b'{"epoch": 1, "incarnation": "", "endpoints": {"A": 1}}',
        b'{"epoch": 1, "incarnation": "", "endpoints": {}, "features": {"x": 1}}',
    ],
)
def test_damaged_brokers_are_named(record: bytes) -> None:
    with pytest.raises(StorageFailed, match="/brokers/3 can't be read"):
        BrokerRegistration.from_bytes(3, record)
