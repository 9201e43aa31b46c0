"""What a compression codec is. Plugins bring theirs under the entry-point group `kqueue.codecs`: an
instance, which `kqueue.testing.check_codec` tests. One with the id of another, e.g. gzip by another
library, serves it where the broker's setting `kqueue.codecs` says so. What it does beside this
contract fails the one batch, with its name (`guard`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kqueue.base.errors import CorruptBatch, DecompressedTooLarge

Buffer = bytes | bytearray | memoryview
FRAMES_FREE = 1000
FRAME_BYTES = 1024  # on average in each frame beyond these


class Levels(NamedTuple):
    """The levels that a codec takes, both ends included, and the one it takes when none is named."""

    lowest: int
    highest: int
    default: int


class Codec(Protocol):
    """Compresses the records of a batch as a whole. Without state: one instance serves all threads."""

    @property
    def id(self) -> int:
        """Number in a batch's attributes, 0-7; 0-4 are Kafka's, and only those do other clients
        understand.
        """
        ...

    @property
    def name(self) -> str:
        """Name in settings, e.g. ``gzip``."""
        ...

    @property
    def levels(self) -> Levels | None:
        """None: the codec knows no levels, and `compress` ignores the one it is given."""
        ...

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        """`data` compressed; empty data too; the same data and level, the same bytes. `level` None:
        the default, else from `levels`.
        """
        ...

    def decompress(self, data: Buffer, limit: int) -> bytes:
        """What was compressed, exactly; `data` comes from strangers.

        Args: limit: the most bytes it may come to, >= 0; never allocates more than about that,
        whatever `data` claims. Raises: CorruptBatch: damaged, cut off, bytes left over, or above
        the limit. Nothing else.
        """
        ...


def above_limit(name: str, limit: int) -> DecompressedTooLarge:
    return DecompressedTooLarge(f"{name}: the records come to more than the limit of {limit} bytes")


def check_frame_count(name: str, count: int, size: int) -> None:
    """Bound what many tiny frames, members or blocks may cost: each takes some 10 µs, and may hold
    nothing.

    Args: count: of them so far. size: bytes that they came to. Raises CorruptBatch: too many for so
    few bytes.
    """
    if count > FRAMES_FREE + size // FRAME_BYTES:
        raise damaged(name, f"{count} frames or blocks hold {size} bytes: too many for so few")


def damaged(name: str, why: object) -> CorruptBatch:
    return CorruptBatch(f"{name}: {why}")
