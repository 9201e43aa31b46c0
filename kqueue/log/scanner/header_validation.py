"""Validates base offset and leader epoch, which no checksum covers, by the neighbouring batches.

Where two batches contradict each other in their offsets, the one is wrong that leaves a gap without
which the other fits. Where the neighbours allow only one value, the `CorruptRange` carries it as a
`HeaderFix`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.log.formats.leader_epochs import LeaderEpochCache
from kqueue.log.formats.offset_index import RELATIVE_OFFSET_MAX
from kqueue.log.scanner.batch_scanner import (
    AnyHeader,
    BatchScanner,
    CheckLevel,
    CorruptRange,
    HeaderFix,
    Readable,
    ScannedBatch,
    first_offset,
)
from kqueue.log.scanner.resync import scan_resyncing
from kqueue.records.batch import BatchHeader

UNKNOWN_EPOCH = -1


def validated_batches(
    file: Readable,
    size: int,
    base: int,
    *,
    limit: int | None = None,
    first: int | None = None,
    check_epochs: bool = True,
    epochs: LeaderEpochCache | None = None,
    deep: bool = False,
) -> Iterator[ScannedBatch | CorruptRange]:
    """Yield the first `size` bytes of a log file in order, each byte in exactly one item.

    Args:
        base: the segment's base offset.
        limit: offset at which the next segment begins, None: there is none.
        first: the least offset that may come, if it is not `base`.
        check_epochs: report a batch whose leader epoch cannot be right as a range with a fix.
        epochs: the checkpoint of leader epochs; it decides where the neighbours do not.
        deep: decode every record too.
    Raises StorageFailed. Allocates a chunk, or one batch that lies within the file.
    """
    check = CheckLevel.RECORDS if deep else CheckLevel.CHECKSUMS
    order = _Order(base, base if first is None else first, limit, epochs, check_epochs)
    scanner = BatchScanner(file, 0, size, check=check)
    return order.validated(scan_resyncing(scanner, base - 1, last_max=order.last_max, limit=limit))


def misplaced_range(
    batch: ScannedBatch, expected: int, bound: int | None = None, fix: HeaderFix | None = None
) -> CorruptRange:
    """Return the range of a batch whose offsets cannot be right.

    Args: expected: the least offset that can be; bound: all are below it, None: unknown.
    """
    upto = "on" if bound is None or bound <= expected else f"to {bound - 1}"
    offsets = f"{first_offset(batch.header)} to {batch.header.last_offset}"
    return CorruptRange(
        batch.position,
        batch.end,
        f"offsets from {expected} {upto}",
        offsets,
        fix,
        bound if fix else None,
        is_misplaced=True,
    )


class _Order:
    """Compares each batch with the one before it and the one after it.

    expected: the least offset that may come next. last_max: the greatest offset that the segment
    can hold.
    """

    def __init__(
        self, base: int, expected: int, limit: int | None, epochs: LeaderEpochCache | None, check_epochs: bool
    ) -> None:
        self.expected = expected
        self.limit = limit
        self.last_max = base + RELATIVE_OFFSET_MAX if limit is None else min(limit - 1, base + RELATIVE_OFFSET_MAX)
        self.epoch = UNKNOWN_EPOCH
        self.epochs = epochs
        self.check_epochs = check_epochs

    def validated(self, items: Iterator[ScannedBatch | CorruptRange]) -> Iterator[ScannedBatch | CorruptRange]:
        """Yield the items; a batch whose offset or epoch is wrong becomes a range."""
        item = next(items, None)
        while item is not None:
            following = next(items, None)
            if isinstance(item, ScannedBatch):
                item = self._wrong_offset(item, following) or self._wrong_epoch(item, following) or item
            yield item
            if isinstance(item, ScannedBatch):
                header = item.header
                self.expected = header.last_offset + 1
                self.epoch = header.leader_epoch if isinstance(header, BatchHeader) else self.epoch
            elif item.next_offset is not None:
                self.expected = item.next_offset
            item = following

    def _wrong_offset(self, batch: ScannedBatch, following: ScannedBatch | CorruptRange | None) -> CorruptRange | None:
        """None: a batch of these offsets can be at its position."""
        header, expected = batch.header, self.expected
        fits = expected <= first_offset(header) and header.last_offset <= self.last_max
        if fits and not self._jumps(header, following):
            return None
        bound = (
            following.first_offset if isinstance(following, ScannedBatch) else self.limit if following is None else None
        )
        fix = None
        if isinstance(header, BatchHeader) and bound is not None and bound - expected == header.last_offset_delta + 1:
            fix = HeaderFix(expected, header.leader_epoch)
        return misplaced_range(batch, expected, self.limit if bound is None else bound, fix)

    def _jumps(self, header: AnyHeader, following: ScannedBatch | CorruptRange | None) -> bool:
        """Whether a batch leaves a gap and then overlaps with the next one: then this one is wrong,
        not all that follow it.
        """
        if (
            first_offset(header) == self.expected
            or not isinstance(following, ScannedBatch)
            or following.header.last_offset > self.last_max
        ):
            return False
        return self.expected <= first_offset(following.header) <= header.last_offset

    def _wrong_epoch(self, batch: ScannedBatch, following: ScannedBatch | CorruptRange | None) -> CorruptRange | None:
        """None: a batch of this leader epoch can be at its position, or the checkpoint agrees."""
        header, before = batch.header, self.epoch
        if not self.check_epochs or not isinstance(header, BatchHeader):
            return None
        after = (
            following.header.leader_epoch
            if isinstance(following, ScannedBatch) and isinstance(following.header, BatchHeader)
            else UNKNOWN_EPOCH
        )
        right = _epoch_between(before, header.leader_epoch, after)
        if right == header.leader_epoch:
            return None
        checkpointed = self.epochs.epoch_at(header.base_offset) if self.epochs is not None else UNKNOWN_EPOCH
        if checkpointed == header.leader_epoch:
            return None
        if checkpointed >= max(before, 0) and (after < 0 or checkpointed <= after):
            right = checkpointed
        fix = HeaderFix(header.base_offset, right)
        return CorruptRange(
            batch.position, batch.end, f"leader epoch {right}", str(header.leader_epoch), fix, header.last_offset + 1
        )


def _epoch_between(before: int, epoch: int, after: int) -> int:
    """The leader epoch of a batch whose neighbours are right; epochs never fall, and -1 (none) is
    always right.
    """
    if epoch == UNKNOWN_EPOCH:
        return epoch
    if epoch < UNKNOWN_EPOCH:
        return before if before >= 0 else after if after >= 0 else UNKNOWN_EPOCH
    if epoch < before:
        return before
    if before <= after < epoch and after >= 0:
        return before if before >= 0 else after
    return epoch
