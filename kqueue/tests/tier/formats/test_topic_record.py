from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.names import uuid_text
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.json_document import encode_document
from kqueue.tier.formats.topic_record import TopicRecord, decode_topic_record, encode_topic_record

ID = bytes(range(16))
ORDERS = TopicRecord("orders", ID, 3, 2, {"retention.ms": "1000", "remote.storage.enable": "true"}, 1_000_000)
CONTENT: dict[str, Any] = {
    "topic": "orders",
    "topic_id": uuid_text(ID),
    "partitions": 1,
    "replication_factor": 1,
    "configs": {},
    "created_ms": 0,
    "sequence": 0,
}


def test_record_is_read_back() -> None:
    assert decode_topic_record(encode_topic_record(ORDERS), "orders", ID) == ORDERS
    assert ORDERS.key == f"topics/orders/{uuid_text(ID)}/topic.json"


def test_deletion_is_a_later_version_of_the_record() -> None:
    deleted = ORDERS.next(deleted_ms=2_000_000)
    read = decode_topic_record(encode_topic_record(deleted), "orders", ID)
    assert read.is_deleted
    assert read.sequence == 1
    assert not ORDERS.is_deleted


def test_record_of_another_topic_is_refused() -> None:
    data = encode_topic_record(ORDERS)
    with pytest.raises(TierCorrupt, match="is that of topic orders"):
        decode_topic_record(data, "payments", ID)
    with pytest.raises(TierCorrupt, match=uuid_text(ID)):
        decode_topic_record(data, "orders", bytes(16))


@pytest.mark.parametrize(
    "change",
    [
        {"topic": "../orders"},
        {"topic_id": "short"},
        {"topic_id": "!" * 22},
        {"partitions": 0},
        {"partitions": 10**9},
        {"partitions": True},
        {"replication_factor": 0},
        {"configs": {"retention.ms": 1}},
        {"configs": {str(number): "" for number in range(1001)}},
        {"created_ms": -1},
        {"deleted_ms": None},
        {"sequence": "1"},
    ],
)
def test_wrong_field_is_refused(change: dict[str, Any]) -> None:
    decode_topic_record(encode_document(CONTENT), "orders", ID)
    with pytest.raises(TierCorrupt):
        decode_topic_record(encode_document(CONTENT | change), "orders", ID)
