"""Copies of records that Produce requests append in later turns.

The buffer of a request is reused when its first turn ends. So a request that takes several turns
copies what it has not appended yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.base.settings import MiB
from kqueue.broker.produce.partition_append import PartitionAppend

COPIED_BYTES_MAX = 64 * MiB
"""Bytes of records that requests may copy to append them in later turns, because they have many
partitions, open many logs, or wait for the transaction coordinator; all connections together.
"""


class RecordCopies:
    """The copies of one broker. `bytes`: those that are held now."""

    __slots__ = ("bytes",)

    def __init__(self) -> None:
        self.bytes = 0

    def hold(self, appends: Sequence[PartitionAppend]) -> int | None:
        """Copy the records of `appends` in place.

        Returns: the bytes, for `release`; None: more than `COPIED_BYTES_MAX` would be held, and
            nothing is copied.
        """
        size = sum(len(append.records or b"") for append in appends)
        if self.bytes + size > COPIED_BYTES_MAX:
            return None
        self.bytes += size
        for append in appends:
            if append.records is not None:
                append.records = memoryview(bytearray(append.records))
        return size

    def release(self, size: int) -> None:
        """Count no more what `hold` has returned."""
        self.bytes -= size
