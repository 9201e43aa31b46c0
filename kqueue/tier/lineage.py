"""Which of the tiered segments belong to a leader's log: those that its leader epochs agree with.

Two logs that have the same epoch at an offset have the same record there, for each epoch has one
leader. After an unclean election the new leader lacks records that its predecessor had copied; its
epochs say from where on. The rule is Kafka's: the leader's log decides (KIP-405, "Leader epoch and
unclean election").
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from kqueue.tier.formats.manifest_root import NO_EPOCH
from kqueue.tier.formats.segments import EpochEntry, TieredSegment


class Lineage:
    """The leader epochs of a log.

    Args:
        epochs: epoch and first offset, both rising, as `LeaderEpochCache.entries`. Of offsets below
            the first one this log knows nothing, so it contradicts no older epoch there.
        leader_epoch: of the leader, whose next record will be at `end_offset`.
    """

    __slots__ = ("_epochs", "_starts")

    def __init__(self, epochs: Sequence[EpochEntry], leader_epoch: int, end_offset: int) -> None:
        known = [entry for entry in epochs if entry[0] < leader_epoch or entry[1] < end_offset]
        if not known or known[-1][0] != leader_epoch:
            known.append((leader_epoch, end_offset))
        self._epochs = [epoch for epoch, _ in known]
        self._starts = [start for _, start in known]

    @property
    def leader_start(self) -> int:
        """First offset of the leader's own records; the end of its log, if there is none yet."""
        return self._starts[-1]

    def common_end(self, segment: TieredSegment) -> int:
        """Return the offset up to which `segment` has the records of this log; its `start_offset`
        or less: none of them.
        """
        epochs = segment.epochs
        if not epochs or epochs[0][1] > segment.start_offset:
            epochs = ((NO_EPOCH, segment.start_offset), *epochs)  # batches of the old formats
        agreed = segment.start_offset
        for (epoch, start), end in zip(epochs, [*(start for _, start in epochs[1:]), segment.end_offset], strict=True):
            agreed = self._agrees_until(epoch, start, end)
            if agreed < end:
                break
        return agreed

    def agreed_end(self, segments: Iterable[TieredSegment], start: int) -> int:
        """Return the offset up to which the tier has the records of this log from `start` on,
        without a gap; `start`: none of them.

        Args: segments: those that end above `start`, oldest first.
        """
        end = start
        for segment in segments:
            if segment.start_offset > end:
                break
            end = max(end, self.common_end(segment))
            if end < segment.end_offset:
                break
        return end

    def _agrees_until(self, epoch: int, start: int, end: int) -> int:
        """Return up to where this log has records of `epoch`, within the offsets."""
        first = self._starts[0]
        if start < first:
            # Older than what this log knows: it says nothing against a lower epoch.
            if epoch > self._epochs[0]:
                return start
            if epoch < self._epochs[0] or end <= first:
                return min(end, first)
            start = first
        number = bisect_right(self._starts, start) - 1
        if self._epochs[number] != epoch:
            return start
        after = self._starts[number + 1] if number + 1 < len(self._starts) else end
        # The last epoch is the leader's own: what it has written and what others wrote under it are
        # one.
        return min(end, after)
