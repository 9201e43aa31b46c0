"""Scans of one partition, forward from an offset or backward from one, until enough is found.

A scan says which offset to fetch next, takes what was fetched, and remembers the messages that
match and where it is. Brokers serve offsets in rising order only: a backward scan reads windows of
offsets, the newest first, each forward. It makes a window smaller if its records are large, and
larger if nothing in it matches, as after compaction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from kqueue.base.clock import monotonic_s
from kqueue.base.errors import KqueueError
from kqueue.base.text import counted, size_text
from kqueue.client.calls.fetch import FetchedRecords
from kqueue.console.messages.fetched_batches import RecordBatch, Unreadable, decoded_batches
from kqueue.console.messages.message import Fault, Message, message_of
from kqueue.records.record import Record

Matches = Callable[[int, Record], bool]
WINDOW_OFFSETS_MIN = 50
WINDOW_OFFSETS_MAX = 10_000
WINDOW_BYTES = 4 * 1024 * 1024
"""A window that is not complete after this many bytes is made smaller."""
FAULTS_MAX = 20
"""Faults of one partition; after them its scan ends."""
_RECORDS_PER_CHECK = 128


@dataclass(slots=True)
class ReadBudget:
    """What one read may cost, shared by the scans of all partitions.

    Attributes:
        records, fetched_bytes, end_s: limits; `end_s` on the monotonic clock.
        records_read, bytes_read: what was used so far.
    """

    records: int
    fetched_bytes: int
    end_s: float
    records_read: int = 0
    bytes_read: int = 0

    @property
    def spent(self) -> str | None:
        """Which limit is reached; None: none."""
        if self.records_read >= self.records:
            return counted(self.records, "record")
        if self.bytes_read >= self.fetched_bytes:
            return size_text(self.fetched_bytes)
        return "the time" if monotonic_s() >= self.end_s else None


@dataclass(frozen=True, slots=True)
class ScanSettings:
    """What all scans of a read have in common.

    Attributes:
        count: how many messages are enough.
        matches: which records count, by partition and record; None: all.
        is_committed: leave out records of aborted transactions.
        excerpt_bytes: how much of each key and value is held.
        held_bytes: a scan ends once its messages take this much memory.
    """

    count: int
    budget: ReadBudget
    matches: Matches | None = None
    is_committed: bool = False
    excerpt_bytes: int = 64 * 1024
    held_bytes: int = 32 * 1024 * 1024

    def message(self, partition: int, record: Record, batch: RecordBatch) -> Message | None:
        """Return a record as a message; None: it does not match."""
        if self.matches is not None and not self.matches(partition, record):
            return None
        return message_of(partition, record, is_log_append_time=batch.is_log_append_time, bytes_max=self.excerpt_bytes)


@dataclass(slots=True)
class _Pass:
    """One way through a partition from `position` up to `end`, exclusive."""

    partition: int
    position: int
    end: int
    faults: list[Fault] = field(default_factory=list)
    is_stuck: bool = False

    def take(self, fetched: FetchedRecords, settings: ScanSettings, add: Callable[[Message], bool]) -> None:
        """Give each matching message to `add`; stop after one for which it returns False."""
        before = self.position
        for batch in decoded_batches(fetched, is_committed=settings.is_committed):
            if isinstance(batch, Unreadable):
                self._fail(batch.reason, None)
                return
            if batch.next_offset <= self.position:
                continue
            if not self._take_batch(batch, settings, add):
                return
            if self.position >= self.end:
                self.position = self.end
                return
        if self.position == before:
            if len(fetched.records):
                self._fail("the broker sent no batch with the offset that was asked for", None)
            self.is_stuck = True  # the broker has nothing there, though the log does not end before

    def _take_batch(self, batch: RecordBatch, settings: ScanSettings, add: Callable[[Message], bool]) -> bool:
        budget = settings.budget
        try:
            for record in batch.records:
                if not self.position <= record.offset < self.end:
                    continue
                budget.records_read += 1
                message = settings.message(self.partition, record, batch)
                self.position = record.offset + 1
                if message is not None and not add(message):
                    return False
                # a search may take long for one record; without one a check would cost more than it
                is_due = settings.matches is not None or not budget.records_read % _RECORDS_PER_CHECK
                if is_due and budget.spent is not None:
                    return False
        except KqueueError as error:  # of its bytes, its codec, or a plugin's codec
            self._fail(str(error), batch.next_offset)
        self.position = max(self.position, batch.next_offset)
        return not self.is_stuck

    def _fail(self, reason: str, next_offset: int | None) -> None:
        self.faults.append(Fault(self.partition, self.position, next_offset, reason))
        self.is_stuck = next_offset is None or len(self.faults) >= FAULTS_MAX


class ForwardScan:
    """Finds the first messages at or after an offset.

    Attributes:
        messages: in order of their offsets.
        lower: where it began.
    """

    def __init__(self, partition: int, start: int, end: int, settings: ScanSettings) -> None:
        self.partition = partition
        self.messages: list[Message] = []
        self.lower = start
        self._settings = settings
        self._pass = _Pass(partition, start, end)
        self._held = 0
        self._is_full = False

    @property
    def upper(self) -> int:
        """The offset after the last one that it has looked at."""
        return self._pass.position

    @property
    def faults(self) -> list[Fault]:
        """Where records can't be read."""
        return self._pass.faults

    @property
    def fetch_offset(self) -> int | None:
        """The offset to fetch next; None: the scan is over."""
        is_over = self._is_full or self._pass.is_stuck or self._pass.position >= self._pass.end
        return None if is_over else self._pass.position

    def take(self, fetched: FetchedRecords) -> None:
        """Take the answer to a fetch of `fetch_offset`."""
        self._pass.take(fetched, self._settings, self._add)

    def fail(self, reason: str) -> None:
        """End the scan: the partition can't be fetched."""
        self._pass.faults.append(Fault(self.partition, self._pass.position, None, reason))
        self._pass.is_stuck = True

    def cut(self, count: int) -> None:
        """Keep the first `count` messages, as if no more had been looked at."""
        if count < len(self.messages):
            self._pass.position = self.messages[count].offset
            del self.messages[count:]

    def _add(self, message: Message) -> bool:
        self.messages.append(message)
        self._held += message.held_bytes
        self._is_full = len(self.messages) >= self._settings.count or self._held >= self._settings.held_bytes
        return not self._is_full


class BackwardScan:
    """Finds the last messages before an offset, down to the start of the log.

    Attributes:
        messages: the newest first.
        lower, upper: the offsets from and to (exclusive) which it has looked.
    """

    def __init__(self, partition: int, before: int, start: int, settings: ScanSettings) -> None:
        self.partition = partition
        self.messages: list[Message] = []
        self.faults: list[Fault] = []
        self.lower = self.upper = before
        self._start = start
        self._settings = settings
        self._size = max(WINDOW_OFFSETS_MIN, settings.count)
        self._held = 0
        self._is_full = False
        self._is_stuck = False
        self._open_window()

    @property
    def fetch_offset(self) -> int | None:
        """The offset to fetch next; None: the scan is over."""
        is_over = self._is_full or self._is_stuck or self.lower <= self._start
        return None if is_over else self._pass.position

    def take(self, fetched: FetchedRecords) -> None:
        """Take the answer to a fetch of `fetch_offset`."""
        self._window_bytes += len(fetched.records)
        self._pass.take(fetched, self._settings, self._add)
        if self._pass.position >= self._pass.end or self._pass.is_stuck:
            self._close_window()
        elif self._settings.budget.spent is None and self._window_bytes >= WINDOW_BYTES and self._size > 1:
            self._size = max(1, self._size // 4)
            self._open_window()

    def fail(self, reason: str) -> None:
        """End the scan: the partition can't be fetched."""
        self.faults.append(Fault(self.partition, self.lower, None, reason))
        self._is_stuck = True

    def cut(self, count: int) -> None:
        """Keep the newest `count` messages, as if no more had been looked at."""
        if count < len(self.messages):
            self.lower = self.messages[count].offset + 1
            del self.messages[count:]

    def _open_window(self) -> None:
        self._pass = _Pass(self.partition, max(self._start, self.lower - self._size), self.lower)
        self._window_start = self._pass.position
        self._window: deque[Message] = deque(maxlen=self._settings.count - len(self.messages) or 1)
        self._window_bytes = 0

    def _close_window(self) -> None:
        """Keep what the window has; what its records left out are older than those it kept."""
        self.faults += self._pass.faults
        was_full = len(self._window) == self._window.maxlen
        self.messages += reversed(self._window)
        self._held += sum(message.held_bytes for message in self._window)
        self.lower = self._window[0].offset if was_full else self._window_start
        self._is_full = was_full or self._held >= self._settings.held_bytes
        self._is_stuck = len(self.faults) >= FAULTS_MAX
        self._size = min(2 * self._size, WINDOW_OFFSETS_MAX)
        self._open_window()

    def _add(self, message: Message) -> bool:
        self._window.append(message)
        return True
