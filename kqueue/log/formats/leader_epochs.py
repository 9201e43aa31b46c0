"""Leader epochs of a log: which leader wrote which offsets; each epoch has a first offset.

`leader-epoch-checkpoint` holds them: a line "0" (version), a line with their number, and a line
"epoch offset" for each. Source: KIP-101, KIP-279, Kafka LeaderEpochFileCache.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kqueue.base.errors import CorruptIndex

UNKNOWN = -1


class EpochEndOffset(NamedTuple):
    """The end offset of an epoch, exclusive; (-1, -1): unknown."""

    epoch: int
    end_offset: int


class LeaderEpochCache:
    """Epochs and their first offsets, both ascending. Kafka's LeaderEpochFileCache.

    Attributes:
        latest: the newest epoch; -1: none.
        changed: not written to the file yet; the next flush writes it.
    """

    __slots__ = ("_epochs", "_starts", "changed", "latest")

    def __init__(self) -> None:
        self._epochs: list[int] = []
        self._starts: list[int] = []
        self.changed = False
        self.latest = UNKNOWN

    def entries(self) -> list[tuple[int, int]]:
        """Return (epoch, first offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start_offset: int) -> None:
        """Record that `epoch` begins at `start_offset`, and remove entries that contradict it."""
        if epoch < 0 or (epoch == self.latest and start_offset >= self._starts[-1]):
            return
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start_offset):
            self._pop()
        self._epochs.append(epoch)
        self.latest = epoch
        self._starts.append(start_offset)
        self.changed = True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """Return where the largest known epoch at or below `epoch` ends.

        Returns:
            (`epoch`, log end) for the newest epoch; (`epoch`, first known offset) for an epoch
            before all known ones; (-1, -1) for an epoch after all known ones, or if none is known.
        """
        if epoch < 0 or not self._epochs or epoch > self._epochs[-1]:
            return EpochEndOffset(UNKNOWN, UNKNOWN)
        after = bisect_right(self._epochs, epoch)
        if after == len(self._epochs):
            return EpochEndOffset(epoch, log_end_offset)
        return EpochEndOffset(self._epochs[after - 1] if after else epoch, self._starts[after])

    def epoch_at(self, offset: int) -> int:
        """Return the epoch that wrote `offset`; -1: unknown."""
        after = bisect_right(self._starts, offset)
        return self._epochs[after - 1] if after else UNKNOWN

    def truncate_from_end(self, end_offset: int) -> None:
        """Remove the epochs that begin at `end_offset` or later."""
        while self._starts and self._starts[-1] >= end_offset:
            self._pop()

    def truncate_from_start(self, start_offset: int) -> None:
        """Remove epochs that end at or before `start_offset`; the one with it then starts there."""
        after = bisect_right(self._starts, start_offset)
        if (after and self._starts[after - 1] != start_offset) or after > 1:
            del self._epochs[: after - 1], self._starts[: after - 1]
            self._starts[0] = start_offset
            self.changed = True

    def clear(self) -> None:
        """Remove all epochs."""
        while self._epochs:
            self._pop()

    def replace(self, entries: Iterable[tuple[int, int]]) -> None:
        """Hold these (epoch, first offset) and no others.

        Raises: CorruptIndex: one is negative, or they do not ascend; nothing changed.
        """
        rows = list(entries)
        before = (UNKNOWN, -1)
        for row in rows:
            if row[0] <= before[0] or row[1] <= before[1]:
                raise CorruptIndex(f"leader epoch {row[0]} from {row[1]} on can't follow {before[0]} from {before[1]}")
            before = row
        if rows != self.entries():
            self.clear()
            for epoch, start in rows:
                self.assign(epoch, start)
            self.changed = True

    def put_in_front(self, entries: Sequence[tuple[int, int]], offset: int) -> None:
        """Add the epochs of the records before the first one here; of those before `offset`, if
        none is here.

        Args: entries: may go on after that, and has to agree with the epochs here then.
        Raises: CorruptIndex: they do not ascend, or contradict an epoch here; nothing changed.
        """
        LeaderEpochCache().replace(entries)
        own = self.entries()
        earlier = [row for row in entries if row[1] < (own[0][1] if own else offset)]
        # An epoch may have begun before its first offset, which is that of the log start once.
        for epoch, start in entries[len(earlier) :] if own else ():
            if self.epoch_at(start) != epoch:
                raise CorruptIndex(f"leader epoch {epoch} begins at {start}, but {self.epoch_at(start)} wrote it here")
        if own and earlier and earlier[-1][0] == own[0][0]:
            own = own[1:]
        joined = LeaderEpochCache()
        joined.replace([*earlier, *own])
        self.replace(joined.entries())

    def _pop(self) -> None:
        self._epochs.pop()
        self.latest = self._epochs[-1] if self._epochs else UNKNOWN
        self._starts.pop()
        self.changed = True


def encode_epochs(epochs: LeaderEpochCache) -> bytes:
    """Return the content of `leader-epoch-checkpoint`."""
    lines = ["0", str(len(epochs.entries())), *(f"{epoch} {start}" for epoch, start in epochs.entries())]
    return ("\n".join(lines) + "\n").encode()


def decode_epochs(data: bytes) -> LeaderEpochCache:
    """Return the epochs of a `leader-epoch-checkpoint`.

    Raises:
        CorruptIndex: the version, the count, a number or the order is wrong.
    """
    epochs = LeaderEpochCache()
    try:
        version, count, *lines = data.decode("ascii").splitlines()
        rows = [(int(epoch), int(start)) for epoch, start in (line.split(" ") for line in lines)]
        if version != "0" or len(rows) != int(count):
            raise ValueError(f"version {version}, {len(rows)} of {count} entries")
    except ValueError as error:
        raise CorruptIndex(f"the leader epochs can't be read: {error}") from None
    for epoch, start in rows:
        if epoch <= epochs.latest or start < 0 or (epochs._starts and start <= epochs._starts[-1]):
            raise CorruptIndex(f"leader-epoch-checkpoint: {epoch} from {start} on can't follow {epochs.entries()[-1:]}")
        epochs.assign(epoch, start)
    epochs.changed = False
    return epochs
