"""Contract of a compression codec.

Plugins register an instance under the entry-point group `kqueue.codecs`;
`kqueue.testing.check_codec` tests one. A codec with the id of another, for example gzip by another
library, serves that id if the broker's setting `kqueue.codecs` names it. A violation of this
contract fails one batch, with the codec's name (`guarded_codec`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from kqueue.base.errors import CorruptBatch, DecompressedTooLarge

Buffer = bytes | bytearray | memoryview
FRAMES_FREE = 1000
FRAME_BYTES = 1024  # on average in each frame beyond these


class Levels(NamedTuple):
    """Compression levels of a codec, both ends included, and its default."""

    lowest: int
    highest: int
    default: int


class Codec(Protocol):
    """Compresses the records of a batch as one block. Thread: one stateless instance serves all."""

    @property
    def id(self) -> int:
        """Number in a batch's attributes, 0-7. Other clients know only Kafka's, 0-4."""
        ...

    @property
    def name(self) -> str:
        """Name in settings, e.g. ``gzip``."""
        ...

    @property
    def levels(self) -> Levels | None:
        """Levels that `compress` accepts; None: it ignores the level."""
        ...

    def compress(self, data: Buffer, level: int | None = None) -> bytes:
        """Return `data` compressed, also if it is empty. Equal arguments give equal bytes.

        Args: level: within `levels`; None: the default.
        """
        ...

    def decompress(self, data: Buffer, limit: int) -> bytes:
        """Return the original bytes. `data` is untrusted.

        Args:
            limit: most bytes of the result, >= 0; about the most that may be allocated, whatever
                size `data` states.

        Raises:
            CorruptBatch: damaged, incomplete, trailing bytes, or above the limit. Nothing else.
        """
        ...


def above_limit(name: str, limit: int) -> DecompressedTooLarge:
    """Return the error for records above the limit."""
    return DecompressedTooLarge(f"{name}: the records come to more than the limit of {limit} bytes")


def check_frame_count(name: str, count: int, size: int) -> None:
    """Bound the number of tiny frames, members or blocks: each costs some 10 µs, even an empty one.

    Args: count: frames so far. size: bytes that they decompressed to.
    Raises: CorruptBatch: too many frames for these bytes.
    """
    if count > FRAMES_FREE + size // FRAME_BYTES:
        raise damaged(name, f"{count} frames or blocks hold {size} bytes: too many for so few")


def damaged(name: str, why: object) -> CorruptBatch:
    """Return the error for damaged data of the codec `name`."""
    return CorruptBatch(f"{name}: {why}")
