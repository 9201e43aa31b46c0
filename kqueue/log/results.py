"""Results of a log's operations: append, read, look-up by time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kqueue.storage import Region

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kqueue.log.formats.transaction_index import AbortedTxn
    from kqueue.log.recovery.read_verification import VerificationTask


class AppendResult(NamedTuple):
    """The offsets of an appended batch. Kafka's LogAppendInfo.

    log_append_time_ms: -1 unless the topic stamps times. next_offset: the log end after the append.
    duplicate: a producer repeated the batch; nothing was written, the offsets are the original
    ones, and the time is the greatest of the original batch, as Kafka answers.
    """

    base_offset: int
    last_offset: int
    log_append_time_ms: int
    log_start_offset: int
    duplicate: bool
    next_offset: int


class ReadResult:
    """Whole batches of one segment; falsy and of length 0 where nothing is readable or nothing
    fits.

    Attributes:
        region: the bytes; None: there are none.
        next_offset: where the next read continues.
        segment_base, position: the segment's base offset, and the first byte in its file.
        check: verification to run before the bytes are served; then repeat the read (see
            `recovery.read_verification`). None: the bytes are verified.
    """

    __slots__ = ("check", "next_offset", "position", "region", "segment_base")

    def __init__(
        self,
        region: Region | None,
        next_offset: int,
        segment_base: int,
        position: int,
        check: VerificationTask | None = None,
    ) -> None:
        self.region = region
        self.next_offset = next_offset
        self.segment_base = segment_base
        self.position = position
        self.check = check

    def __len__(self) -> int:
        return self.region.size if self.region is not None else 0

    @property
    def data(self) -> Region | bytes:
        """The region, to send without a copy; empty bytes where there is none."""
        return self.region if self.region is not None else b""

    def read(self) -> bytes:
        """Read the bytes. Raises: StorageFailed."""
        return self.region.read() if self.region is not None else b""


class TieredReadResult(ReadResult):
    """Whole batches that were read from the tier, in memory. Kafka's RemoteLogReadResult.

    Attributes: aborted: the aborted transactions among them, of a read up to the last stable
        offset.
    """

    __slots__ = ("aborted",)

    def __init__(self, region: Region | None, next_offset: int, aborted: Sequence[AbortedTxn]) -> None:
        super().__init__(region, next_offset, -1, 0)
        self.aborted = aborted

    @property
    def data(self) -> Region | bytes:
        """The bytes: they are in memory, and count as memory of the response, other than a region
        of a file.
        """
        return self.read()


class TimestampAndOffset(NamedTuple):
    """A record found by time. timestamp: ms. leader_epoch: -1: unknown."""

    timestamp: int
    offset: int
    leader_epoch: int
