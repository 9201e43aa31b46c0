"""Valid and faulty plugins, in a module that a setting can name and another process can import."""

from __future__ import annotations

import random
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from kqueue.base.errors import CorruptBatch
from kqueue.log.policies import Cleanup, CommittedOffsets, Drop, LogView
from kqueue.metadata.memory import MemoryStore
from kqueue.records.codecs import Buffer, Levels
from kqueue.records.codecs.gzip import GzipCodec
from kqueue.storage import LocalStorage

MARK = b"mine:"


@dataclass(frozen=True)
class MarkedCodec:
    """zlib with a prefix, under an id that no codec of Kafka has."""

    name: str = "marked"
    id: int = 5
    levels: Levels | None = None

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        return MARK + zlib.compress(data)

    def decompress(self, data: Buffer, limit: int) -> bytes:
        if bytes(data[: len(MARK)]) != MARK:
            raise CorruptBatch(f"{self.name}: no mark")
        stream = zlib.decompressobj()
        try:
            content = stream.decompress(data[len(MARK) :], limit + 1)
        except zlib.error as error:
            raise CorruptBatch(f"{self.name}: {error}") from None
        if len(content) > limit or not stream.eof or stream.unused_data:
            raise CorruptBatch(f"{self.name}: cut off, or more than {limit}")
        return content


class NamedGzip(GzipCodec):
    """Replaces gzip, and marks its output with a file name in the header (RFC 1952)."""

    name = "named-gzip"  # type: ignore[assignment]
    levels = Levels(0, 3, 2)

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        packed = super().compress(data, None)
        return packed[:3] + b"\x08" + packed[4:10] + b"kq\0" + packed[10:]


class ExplodingCodec(MarkedCodec):
    """Raises an exception with a message that must not reach clients."""

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        raise RuntimeError("the secret is 42")

    def decompress(self, data: Buffer, limit: int) -> bytes:
        raise RuntimeError("the secret is 42")


class LastPartition:
    """Chooses the last partition."""

    def __init__(self, rng: random.Random) -> None:
        pass

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        return count - 1


class BeyondPartition(LastPartition):
    """Chooses a partition that does not exist."""

    def partition(
        self,
        key: bytes | None,
        count: int,
        *,
        available: Sequence[int] | None = None,
        value: bytes | None = None,
        topic: str = "",
    ) -> int:
        return count


class NeverPolicy:
    """Deletes nothing."""

    name = "never"

    def plan(self, log: LogView, groups: CommittedOffsets, config: object, now_ms: int) -> Cleanup | None:
        return Drop(0, "never") if log.start_offset < 0 else None


class OtherStorage(LocalStorage):
    """Local files, as the storage of a plugin."""


MARKED = MarkedCodec()
NAMED_GZIP = NamedGzip()
EXPLODING = ExplodingCodec("exploding", 6)
NEVER = NeverPolicy()
NO_CODEC = object()


def make_storage(folder: str) -> OtherStorage:
    return OtherStorage(folder)


def make_nothing(folder: str) -> None:
    return None


STORES: dict[str, MemoryStore] = {}


def open_store(folder: str) -> MemoryStore:
    """Return the same store for the same folder until the process ends."""
    return STORES.setdefault(folder, KeptStore())


class KeptStore(MemoryStore):
    """Keeps its content after `close`, as a remote store does."""

    def close(self) -> None:
        pass
