"""One entry of a manifest: a segment of the tier, and what its object holds."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

from kqueue.log.formats.time_index import NO_TIMESTAMP
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.fields import EPOCH_MAX, Fields
from kqueue.tier.formats.keys import TieredPartition, is_object_id

EPOCHS_MAX = 10_000
"""So many leaders in one segment: a leader appends a batch at least. More are refused."""
SEGMENT_BYTES_MAX = 2**31 - 1
"""Positions in a segment are int32."""
EpochEntry = tuple[int, int]
"""A leader epoch and its first offset."""


class IndexSizes(NamedTuple):
    """Bytes of what follows the batches in a segment object, in this order; 0: there is none."""

    offset_index: int
    time_index: int
    transaction_index: int
    producer_snapshot: int
    leader_epochs: int


class TieredSegment(NamedTuple):
    """A segment of the tier. Offsets are those of records, `end_offset` is exclusive.

    object_id: of the object, 32 hexadecimal digits.
    base_offset: of the segment's file, which the entries of its indexes are relative to.
    start_offset, end_offset: what counts of it. A new leader's segments have other borders than its
        predecessor's, so the batches below `start_offset` are in an earlier segment too. Batches at
        or above `end_offset` were undone by an unclean election.
    size: bytes of all batches in the object.
    max_timestamp: greatest time of a record, ms; -1: no record has one.
    crc: CRC-32C of all batches in the object.
    indexes: sizes of the indexes behind the batches. indexes_crc: CRC-32C of all of them.
    epochs: the leader epochs from `start_offset` to `end_offset`, each with its first offset.
        Batches of the old formats have none: those before the first epoch, or all.
    unstable_offset: first offset of a transaction that is open at the end of the segment, which may
        be in an earlier one; `end_offset`: none is open; 0: unknown.
    leader_epoch, broker: whose copy it is.
    copied_ms: when the copy began, wall clock of the leader in ms since 1970.
    is_cut: the object has batches behind `end_offset`, and its producer snapshot knows of them.
    """

    object_id: str
    base_offset: int
    start_offset: int
    end_offset: int
    size: int
    max_timestamp: int
    crc: int
    indexes: IndexSizes
    indexes_crc: int
    epochs: tuple[EpochEntry, ...]
    unstable_offset: int
    leader_epoch: int
    broker: int
    copied_ms: int
    is_cut: bool = False

    def key(self, partition: TieredPartition) -> str:
        """Return the key of its object."""
        return partition.segment_key(self.base_offset, self.object_id)

    def cut(self, end_offset: int) -> TieredSegment:
        """Return the entry without the batches from `end_offset` on."""
        kept = tuple(entry for entry in self.epochs if entry[1] < end_offset)
        # Transactions that ended in what is cut off are open at the new end; the entry does not say
        # which.
        return self._replace(end_offset=end_offset, epochs=kept, unstable_offset=0, is_cut=True)

    def to_json(self) -> dict[str, Any]:
        """Return the entry as JSON values."""
        return {
            "object": self.object_id,
            "base": self.base_offset,
            "start": self.start_offset,
            "end": self.end_offset,
            "size": self.size,
            "time": self.max_timestamp,
            "crc32c": f"{self.crc:08x}",
            "indexes": list(self.indexes),
            "indexes_crc32c": f"{self.indexes_crc:08x}",
            "epochs": [list(entry) for entry in self.epochs],
            "unstable": self.unstable_offset,
            "leader_epoch": self.leader_epoch,
            "broker": self.broker,
            "copied_ms": self.copied_ms,
            "cut": int(self.is_cut),
        }


def read_segment(values: object) -> TieredSegment:
    """Return the entry that `to_json` made. Raises: TierCorrupt: a field is wrong."""
    fields = Fields(values, "a segment of the manifest")
    object_id = fields.text("object")
    if not is_object_id(object_id):
        raise fields.error("object", "32 hexadecimal digits")
    base, start, end = fields.number("base"), fields.number("start"), fields.number("end")
    segment = TieredSegment(
        object_id,
        base,
        start,
        end,
        fields.number("size", maximum=SEGMENT_BYTES_MAX),
        fields.number("time", minimum=NO_TIMESTAMP),
        fields.hexadecimal("crc32c"),
        IndexSizes(*fields.numbers("indexes", len(IndexSizes._fields))),
        fields.hexadecimal("indexes_crc32c"),
        fields.epochs("epochs", maximum=EPOCHS_MAX),
        fields.number("unstable"),
        fields.number("leader_epoch", maximum=EPOCH_MAX),
        fields.number("broker", minimum=-1, maximum=2**31 - 1),
        fields.number("copied_ms"),
        bool(fields.number("cut", maximum=1)),
    )
    if not base <= start < end or segment.unstable_offset > end:
        raise TierCorrupt(
            "a segment of the manifest: expected base <= start < end >= unstable, "
            f"found {base}, {start}, {end}, {segment.unstable_offset}"
        )
    if sum(segment.indexes) > SEGMENT_BYTES_MAX:
        raise TierCorrupt(
            f"a segment of the manifest: expected indexes of at most {SEGMENT_BYTES_MAX} bytes, found {segment.indexes}"
        )
    if not _ascend(segment.epochs) or any(not start <= offset < end for _, offset in segment.epochs):
        raise TierCorrupt(f"a segment of the manifest: expected rising epochs within {start} and {end}")
    return segment


def _ascend(epochs: tuple[EpochEntry, ...]) -> bool:
    return all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(epochs))
