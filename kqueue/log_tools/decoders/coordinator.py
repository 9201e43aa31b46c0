"""Records of `__consumer_offsets` and `__transaction_state` as JSON, as Kafka's tool prints them.

    key: int16 type, fields of version 0
    value: int16 version, fields of that version; null deletes the state of the key

Source: Kafka CoordinatorRecordSerde, DumpLogSegments.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import CorruptData, UnsupportedVersion
from kqueue.groups.log import consumer_schemas as consumer
from kqueue.groups.log import streams_schemas as streams
from kqueue.groups.log.schemas import (
    CONSUMER_PROTOCOL,
    VERSION,
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kqueue.log_tools.decoders import schemas
from kqueue.log_tools.decoders.struct_json import json_text, struct_to_json
from kqueue.log_tools.errors import DecodeError
from kqueue.records.record import Record
from kqueue.schema import reader
from kqueue.transactions.schemas import TransactionLogKey, TransactionLogValue

Types = dict[int, tuple[type[Any], type[Any]]]
DELETE = "<DELETE>"
GROUP_TYPES: Types = {  # by the type in the key; share groups are not decoded
    0: (OffsetCommitKey, schemas.LegacyOffsetCommitValue),
    1: (OffsetCommitKey, OffsetCommitValue),
    2: (GroupMetadataKey, GroupMetadataValue),
    3: (consumer.ModernGroupKey, consumer.ConsumerGroupMetadataValue),
    4: (consumer.ModernGroupKey, consumer.ConsumerGroupPartitionMetadataValue),
    5: (consumer.ModernMemberKey, consumer.ConsumerGroupMemberMetadataValue),
    6: (consumer.ModernGroupKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    7: (consumer.ModernMemberKey, consumer.ConsumerGroupTargetAssignmentMemberValue),
    8: (consumer.ModernMemberKey, consumer.ConsumerGroupCurrentMemberAssignmentValue),
    16: (consumer.ConsumerGroupRegularExpressionKey, consumer.ConsumerGroupRegularExpressionValue),
    17: (consumer.ModernGroupKey, streams.StreamsGroupMetadataValue),
    19: (consumer.ModernMemberKey, streams.StreamsGroupMemberMetadataValue),
    20: (consumer.ModernGroupKey, consumer.ConsumerGroupTargetAssignmentMetadataValue),
    21: (consumer.ModernMemberKey, streams.StreamsGroupTargetAssignmentMemberValue),
    22: (consumer.ModernMemberKey, streams.StreamsGroupCurrentMemberAssignmentValue),
    23: (consumer.ModernGroupKey, streams.StreamsGroupTopologyValue),
}
TRANSACTION_TYPES: Types = {0: (TransactionLogKey, TransactionLogValue)}


def offsets_decoder(record: Record) -> tuple[str | None, str | None]:
    """Return key and value of a record of `__consumer_offsets`.

    Raises: DecodeError: it has no key.
    """
    return _decode(record, GROUP_TYPES)


def transaction_log_decoder(record: Record) -> tuple[str | None, str | None]:
    """Return key and value of a record of `__transaction_state`.

    Raises: DecodeError: it has no key.
    """
    return _decode(record, TRANSACTION_TYPES)


def _decode(record: Record, types: Types) -> tuple[str | None, str | None]:
    if record.key is None:
        raise DecodeError("a record of a coordinator's log has a key, found none")
    try:
        kind = _short(record.key)
        if kind not in types:
            return f"Unknown record type {kind} at offset {record.offset}, skipping.", None
        key_class, value_class = types[kind]
        key = {"type": str(kind), "data": struct_to_json(_read(key_class, 0, record.key), 0)}
        return json_text(key), DELETE if record.value is None else json_text(_value(value_class, record.value))
    except (CorruptData, UnsupportedVersion) as error:
        return f"Error at offset {record.offset}, skipping. {error}", None


def _value(cls: type[Any], data: bytes) -> dict[str, Any]:
    version = _short(data)
    struct = _read(cls, version, data)
    values = struct_to_json(struct, version)
    if isinstance(struct, GroupMetadataValue) and struct.protocol_type == CONSUMER_PROTOCOL:
        for member, shown in zip(struct.members, values["members"], strict=True):
            _replace(shown, "subscription", ConsumerProtocolSubscription, member.subscription)
            _replace(shown, "assignment", ConsumerProtocolAssignment, member.assignment)
    return {"version": str(version), "data": values}


def _replace(shown: dict[str, Any], name: str, cls: type[Any], data: bytes) -> None:
    """Replace a member's bytes by their decoded form; bytes that cannot be decoded stay."""
    try:
        version = _short(data)
        shown[name] = struct_to_json(_read(cls, version, data), version)
    except (CorruptData, UnsupportedVersion):
        pass


def _short(data: bytes) -> int:
    if len(data) < VERSION.size:
        raise DecodeError(f"expected a version of {VERSION.size} bytes, found {len(data)}")
    number: int = VERSION.unpack_from(data)[0]
    return number


def _read(cls: type[Any], version: int, data: bytes) -> object:
    """Return the struct after the version.

    Later bytes belong to a newer version and are ignored.
    """
    return reader(cls, version)(memoryview(data), VERSION.size)[0]
