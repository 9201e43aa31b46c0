"""Encodes and decodes the records of `__consumer_offsets`.

Writes the versions that Kafka 4.3 writes: offsets as version 4 (version 1 if the client set an
expiry, 3 as an older Kafka), groups as version 3. Reads every version that Kafka ever wrote.
"""

from __future__ import annotations

from typing import NamedTuple

from kqueue.base.errors import MalformedMessage
from kqueue.base.names import UUID_ZERO
from kqueue.groups.log import modern_records
from kqueue.groups.log.modern_records import ModernKey
from kqueue.groups.log.schemas import VERSION, GroupMetadataKey, GroupMetadataValue, OffsetCommitKey, OffsetCommitValue
from kqueue.schema import decode, encode

OFFSET_KEYS = (0, 1)
"""Versions of offset keys. Both have the same fields; Kafka before 0.9 wrote 0."""
GROUP_KEY = 2
_OFFSET_PREFIX = VERSION.pack(1)
_GROUP_PREFIX = VERSION.pack(GROUP_KEY)
OFFSET_VERSION = 4
OFFSET_VERSION_WITH_EXPIRY = 1
"""The only version with an expiry time."""
GROUP_VERSION = 3


class CommittedOffset(NamedTuple):
    """The offset that a group has committed for one partition.

    Attributes:
        leader_epoch: -1 if the client did not send it.
        metadata: text of the client.
        committed_ms: time of the commit (wall clock).
        expires_ms: wall clock; None unless the client set a retention (OffsetCommit 2-4).
        topic_id: zero if unknown.
    """

    offset: int
    leader_epoch: int
    metadata: str
    committed_ms: int
    expires_ms: int | None = None
    topic_id: bytes = UUID_ZERO


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Return the record key of a committed offset."""
    return _OFFSET_PREFIX + encode(OffsetCommitKey(group=group_id, topic=topic, partition=partition), 0)


def offset_value(committed: CommittedOffset, version: int = OFFSET_VERSION) -> bytes:
    """Return the record value of a committed offset, at this version unless the client set an
    expiry.
    """
    version = version if committed.expires_ms is None else OFFSET_VERSION_WITH_EXPIRY
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.committed_ms,
        expire_timestamp=-1 if committed.expires_ms is None else committed.expires_ms,
        topic_id=committed.topic_id,
    )
    return VERSION.pack(version) + encode(value, version)


def group_key(group_id: str) -> bytes:
    """Return the record key of a group's generation."""
    return _GROUP_PREFIX + encode(GroupMetadataKey(group=group_id), 0)


def group_value(value: GroupMetadataValue) -> bytes:
    """Return the record value of a group's generation."""
    return VERSION.pack(GROUP_VERSION) + encode(value, GROUP_VERSION)


def read_key(key: bytes | memoryview) -> OffsetCommitKey | GroupMetadataKey | ModernKey | None:
    """Return the decoded key of a record; None: a record type that kqueue does not support.

    Raises:
        MalformedMessage: the key is damaged.
    """
    kind = _version(key, "key")
    if kind in OFFSET_KEYS:
        return decode(OffsetCommitKey, 0, key[VERSION.size :])
    if kind == GROUP_KEY:
        return decode(GroupMetadataKey, 0, key[VERSION.size :])
    if kind in modern_records.KEYS:
        return modern_records.read_key(kind, key[VERSION.size :])
    return None


def read_offset(value: bytes | memoryview) -> CommittedOffset:
    """Return the committed offset in a record value.

    Raises:
        MalformedMessage: the value is damaged, or its version is unknown.
    """
    read = decode(OffsetCommitValue, _known_version(value, "offset", 4), value[VERSION.size :])
    expires_ms = None if read.expire_timestamp == -1 else read.expire_timestamp
    return CommittedOffset(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, expires_ms, read.topic_id
    )


def read_group(value: bytes | memoryview) -> GroupMetadataValue:
    """Return the group's generation in a record value.

    Raises:
        MalformedMessage: the value is damaged, or its version is unknown.
    """
    return decode(GroupMetadataValue, _known_version(value, "group", 4), value[VERSION.size :])


def _version(data: bytes | memoryview, what: str) -> int:
    if len(data) < VERSION.size:
        raise MalformedMessage(
            f"a record's {what} starts with a version of {VERSION.size} bytes, found {len(data)} bytes"
        )
    version: int = VERSION.unpack_from(data)[0]
    return version


def _known_version(data: bytes | memoryview, what: str, newest: int) -> int:
    version = _version(data, f"value ({what})")
    if not 0 <= version <= newest:
        raise MalformedMessage(f"the value of a {what} record has a version from 0 to {newest}, found {version}")
    return version
