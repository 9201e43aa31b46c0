"""The topics as groups know them, and their hash that tells a group that they changed."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple, Protocol

import xxhash

_TOPIC_HASH_VERSION = b"\0"


class TopicMetadata(NamedTuple):
    """A topic. `racks`: by partition, the racks of its replicas; empty if no broker has one."""

    id: bytes
    name: str
    partition_count: int
    racks: tuple[tuple[str, ...], ...] = ()


class TopicsMetadata(Protocol):
    """The topics of the cluster."""

    @property
    def version(self) -> int:
        """A number that grows with each change."""
        ...

    def find(self, name: str) -> TopicMetadata | None:
        """Return a topic; None: there is none of this name."""
        ...

    def name_of(self, id: bytes) -> str | None:
        """Return the name of a topic; None: there is none of this id."""
        ...

    def names(self) -> list[str]:
        """Return the names of all topics, internal ones included."""
        ...


def metadata_hash(names: Iterable[str], topics: TopicsMetadata) -> int:
    """Return a signed 64-bit hash of these topics; 0 if none of them exists.

    Two brokers with the same topics have the same hash, so a group goes on without a rebalance
    when another broker loads it. Source: Kafka's group coordinator Utils, hash4j's XXH3.
    """
    known = [topic for name in sorted(names) if (topic := topics.find(name)) is not None]
    if not known:
        return 0
    data = b"".join(_topic_hash(topic).to_bytes(8, "little") for topic in known)
    return _signed(xxhash.xxh3_64_intdigest(data))


@lru_cache(maxsize=4096)
def _topic_hash(topic: TopicMetadata) -> int:
    data = bytearray(_TOPIC_HASH_VERSION)
    data += topic.id[7::-1] + topic.id[:7:-1]  # two longs, little-endian
    data += _text(topic.name) + topic.partition_count.to_bytes(4, "little")
    if not topic.racks:
        data += _indexes(topic.partition_count)
    for index, racks in enumerate(topic.racks):
        data += index.to_bytes(4, "little") + b"".join(map(_text, sorted(racks)))
    return xxhash.xxh3_64_intdigest(bytes(data))


@lru_cache(maxsize=64)
def _indexes(count: int) -> bytes:
    return struct.pack(f"<{count}i", *range(count))


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    return units + (len(units) // 2).to_bytes(4, "little")


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value
