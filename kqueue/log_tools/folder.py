"""A partition folder of Kafka or kqueue, opened read-only: its segments, batches and records.

A broker may use the folder at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Unpack

from kqueue.base.errors import CorruptBatch, CorruptIndex, OffsetOutOfRange, StorageFailed
from kqueue.base.names import parse_partition_folder
from kqueue.base.text import counted
from kqueue.log.formats.checkpoints import LOG_STARTS, decode_offsets, decode_partition_metadata
from kqueue.log.formats.filenames import CLEANED, DELETED, LOG, PARTITION_METADATA, SWAP, parse_file_name
from kqueue.log.recovery.damage import Damage
from kqueue.log_tools import arrow
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.index_lookup import log_end_of
from kqueue.log_tools.rows import Selection, SelectionArgs
from kqueue.log_tools.segments import Batch, Segment
from kqueue.log_tools.tier_urls import is_url, open_partition_url
from kqueue.log_tools.transaction_outcomes import TransactionOutcomes
from kqueue.log_tools.valid_batches import OnDamage, damage_reporter, valid_batches
from kqueue.records.batch import DECOMPRESSED_BYTES_MAX
from kqueue.records.record import Record
from kqueue.storage import FolderEntry, LocalStorage, Storage

if TYPE_CHECKING:
    import pyarrow as pa

Isolation = Literal["read_uncommitted", "read_committed"]
ISOLATIONS = ("read_uncommitted", "read_committed")
PAUSES_S = (
    0.0,
    0.0,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    *(0.05,) * 40,
)  # between two listings while a broker renames files; two seconds in all


def open_log(folder: str | Path) -> LogFolder:
    """Open the folder of a partition, such as ``data/orders-0``, for reading.

    Iterate over its records.

    Nothing is written or locked, so a running broker may use the folder, and its disk may be
    read-only. The segments are listed once; open the folder again to see later ones.

    Args:
        folder: or the URL of a partition in a tier, such as ``s3://bucket/prefix/orders-0``, which
            has the segments that were copied there.
    Raises:
        NotALogFolder: there is no such folder, or it holds no log.
        StorageFailed: it cannot be read.
        ExtraNeeded: the package for the URL is missing.
    """
    if is_url(folder):
        target = open_partition_url(str(folder))
        return LogFolder(target.storage, str(target.partition), note=target.note)
    path = Path(folder).resolve()
    if not path.is_dir():
        raise NotALogFolder(
            f"{folder} is a file, expected the folder of a partition"
            if path.exists()
            else f"there is no folder {folder}"
        )
    return LogFolder(LocalStorage(path.parent), path.name)


class LogFolder:
    """A partition's log.

    `topic`, `partition`: from the folder's name, None if that is another name.

    `segments`: oldest first. `topic_id`: 16 bytes, None if it is not stored.
    """

    def __init__(self, storage: Storage, folder: str, *, note: str = "") -> None:
        """Open `folder` of `storage`. Raises: as `open_log`.

        Args: note: more on which log it is, for people.
        """
        self.storage = storage
        self._note = note
        self.folder = folder
        named = parse_partition_folder(folder)
        self.topic: str | None = named[0] if named else None
        self.partition: int | None = named[1] if named else None
        self.segments = _find_segments(storage, folder)
        if not self.segments:
            raise NotALogFolder(f"{self.location} holds no log: expected files such as 00000000000000000000{LOG}")

    def __repr__(self) -> str:
        note = f", {self._note}" if self._note else ""
        return f"<log {self.location}, {counted(len(self.segments), 'segment')}{note}>"

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    @property
    def location(self) -> str:
        """The folder, for people."""
        return f"{self.storage.location}/{self.folder}"

    @property
    def size(self) -> int:
        """Bytes of all log files, when the folder was listed."""
        return sum(segment.size for segment in self.segments)

    @property
    def topic_id(self) -> bytes | None:
        """The id that all partitions of the topic share, 16 bytes.

        None: it is not stored or not readable.
        """
        try:
            return decode_partition_metadata(self.storage.read(f"{self.folder}/{PARTITION_METADATA}"))
        except (FileNotFoundError, CorruptIndex):
            return None

    @property
    def start_offset(self) -> int:
        """The first readable offset: the first segment's base, or a later one after DeleteRecords.

        The latter is in the log-start-offset-checkpoint beside the folder, which a running broker
        writes once a minute.
        """
        first = self.segments[0].base_offset
        try:
            offsets = decode_offsets(self.storage.read(LOG_STARTS))
        except (FileNotFoundError, CorruptIndex, StorageFailed):
            return first
        return max(first, offsets.get((self.topic or "", self.partition or 0), first))

    @property
    def end_offset(self) -> int:
        """The offset after the last complete batch; a batch that is being appended does not count.

        Raises: StorageFailed.
        """
        return log_end_of(self.segments[-1])

    def batches(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        check: bool = True,
        on_damage: OnDamage = "raise",
    ) -> Iterator[Batch]:
        """Return the batches between two offsets, in order.

        They begin with the one that holds `start_offset` and end with the last that begins before
        `end_offset`.

        Args:
            start_offset, end_offset: None: the log's own; in a compaction gap the next batch is
                first.
            check: verify checksums, which reads every byte; else only headers are read.
            on_damage: "raise"; "skip": resume at the next valid batch; or a function that receives
                the damage, and then as "skip".
        Raises:
            CorruptBatch: names file, position, expected and found.
            OffsetOutOfRange: below the log's start, or negative.
            StorageFailed.
            FileNotFoundError: a running broker has deleted a segment meanwhile.
        """
        start = self._checked_start(start_offset)
        return self._batches(start, end_offset, check, on_damage)

    def records(
        self,
        *,
        start_offset: int | None = None,
        end_offset: int | None = None,
        isolation: Isolation = "read_uncommitted",
        check: bool = True,
        on_damage: OnDamage = "raise",
        limit_bytes: int = DECOMPRESSED_BYTES_MAX,
    ) -> Iterator[Record]:
        """Return the records with start_offset <= offset < end_offset; no control records.

        Args:
            isolation: "read_committed" leaves out aborted transactions and ends before the first
                open one. It reads all headers of the log first; memory grows with the number of
                aborted transactions.
            limit_bytes: bytes to which one batch may decompress.
            others: as `batches`.
        Raises: as `batches`; UnsupportedCodec.
        """
        if isolation not in ISOLATIONS:
            raise ValueError(f"isolation is one of {', '.join(ISOLATIONS)}, not {isolation!r}")
        start = self._checked_start(start_offset)
        end = end_offset
        aborted = None
        if isolation == "read_committed":
            aborted = TransactionOutcomes(self._batches(start, None, False, on_damage))
            if aborted.first_unstable_offset is not None:
                end = aborted.first_unstable_offset if end is None else min(end, aborted.first_unstable_offset)
        return self._records(self._batches(start, end, check, on_damage), start, end, aborted, on_damage, limit_bytes)

    def arrow_batches(
        self, *, rows_max: int = arrow.ROWS_MAX, bytes_max: int = arrow.BYTES_MAX, **selection: Unpack[SelectionArgs]
    ) -> Iterator[pa.RecordBatch]:
        """Return the records as Arrow record batches of bounded size.

        Args:
            rows_max, bytes_max: of a batch; `bytes_max` is approximate.
            selection: fields of `kqueue.log_tools.rows.Selection`, such as start_offset and
                value_as.
        Returns: batches with the columns of `kqueue.log_tools.rows.Row`.
        Raises: as `records`; ExtraNeeded: pyarrow is not installed.
        """
        return arrow.arrow_batches(
            self, Selection(**selection), rows_max=rows_max, bytes_max=bytes_max, data_bytes=self.size
        )

    def to_arrow(self, **selection: Unpack[SelectionArgs]) -> pa.Table:
        """Return all of `arrow_batches` as one table in memory. Raises: as `arrow_batches`."""
        return arrow.to_table(self, Selection(**selection), data_bytes=self.size)

    def _checked_start(self, start_offset: int | None) -> int:
        first = self.start_offset
        if start_offset is None:
            return first
        if start_offset < first:
            raise OffsetOutOfRange(f"offset {start_offset} lies before the start of {self.location}, which is {first}")
        return start_offset

    def _batches(self, start: int, end_offset: int | None, check: bool, on_damage: OnDamage) -> Iterator[Batch]:
        report = damage_reporter(on_damage)
        for segment, following in pairwise((*self.segments, None)):
            assert segment is not None
            if (following is not None and following.base_offset <= start) or (
                end_offset is not None and segment.base_offset >= end_offset
            ):
                continue
            next_base = following.base_offset if following is not None else None
            for batch in valid_batches(segment, start, next_base, check=check, report=report):
                if (
                    end_offset is not None
                    and batch.base_offset >= end_offset
                    and (batch.magic == 2 or not batch.unit.codec_id)
                ):
                    return
                yield batch

    def _records(
        self,
        batches: Iterable[Batch],
        start: int,
        end: int | None,
        aborted: TransactionOutcomes | None,
        on_damage: OnDamage,
        limit_bytes: int,
    ) -> Iterator[Record]:
        for batch in batches:
            if batch.is_control or (aborted is not None and aborted.is_aborted(batch)):
                continue
            whole = batch.magic == 2 and batch.base_offset >= start and (end is None or batch.last_offset < end)
            try:
                if whole:
                    yield from batch.records(limit_bytes=limit_bytes)
                    continue
                for record in batch.records(limit_bytes=limit_bytes):
                    if record.offset >= start and (end is None or record.offset < end):
                        yield record
            except CorruptBatch as error:
                if on_damage == "raise":
                    raise
                damage_reporter(on_damage)(
                    Damage(batch.location, batch.position, "records as its header counts them", str(error))
                )


def _find_segments(storage: Storage, folder: str) -> tuple[Segment, ...]:
    """Return the segments, oldest first; the folder is listed again until the listing is stable.

    Raises: StorageFailed: a broker keeps renaming its files.
    """
    before = storage.list(folder)
    for pause_s in PAUSES_S:
        try:
            segments = _segments_of(storage, folder, before)
        except FileNotFoundError:
            segments = None
        # A listing may miss a file that is being renamed, and a name may have changed since: the
        # segments are valid only if the listing is the same afterwards.
        now = storage.list(folder)
        if segments is not None and _sealed(before) == _sealed(now):
            return segments
        before = now
        time.sleep(pause_s)
    raise StorageFailed(
        f"{storage.location}/{folder}: its files are renamed faster than they can be listed; try again later"
    )


def _sealed(listed: Sequence[FolderEntry]) -> list[tuple[str, int]]:
    """Return what must not change between two listings: names, and sizes of sealed log files.

    The last log file grows; `.cleaned` files are incomplete.
    """
    names = [entry.name for entry in listed]
    last = max((name for name in names if name.endswith(LOG)), default="")
    return [
        (entry.name, entry.size if entry.name.endswith((LOG, LOG + SWAP)) and entry.name != last else 0)
        for entry in listed
    ]


def _segments_of(storage: Storage, folder: str, listed: Iterable[FolderEntry]) -> tuple[Segment, ...]:
    """Return the segments among these entries, oldest first.

    While a compaction is being installed, or after it was interrupted past its point of no return,
    the new segments replace those that they cover, some of which may be gone.
    `kqueue.log.compaction.swap` explains the names.

    Raises: FileNotFoundError: a file was deleted meanwhile.
    """
    segments: dict[int, Segment] = {}
    swapped: list[Segment] = []
    entries: dict[tuple[int, str], dict[str, FolderEntry]] = {}
    for entry in listed:
        state = next((state for state in (SWAP, DELETED, CLEANED) if entry.name.endswith(state)), "")
        parsed = None if entry.is_folder else parse_file_name(entry.name.removesuffix(state))
        if parsed is not None:
            entries.setdefault((parsed[0], state), {})[parsed[1]] = entry
    unfinished = min(
        (offset for offset, state in entries if state == CLEANED), default=None
    )  # a compaction is unfinished from there on: its swap files are ignored
    for (offset, state), files in sorted(entries.items()):
        has_records = LOG in files and state not in (DELETED, CLEANED)
        is_of_unfinished = state == SWAP and unfinished is not None and offset >= unfinished
        if not has_records or is_of_unfinished:
            continue
        segment = Segment(
            storage, folder, offset, {suffix: entry.name for suffix, entry in files.items()}, files[LOG].size
        )
        if state == SWAP or LOG in entries.get((offset, DELETED), {}):
            swapped.append(segment)
        if state != SWAP:
            segments[offset] = segment
    for segment in swapped:
        end = log_end_of(segment)
        segments = {offset: old for offset, old in segments.items() if not segment.base_offset < offset < end} | {
            segment.base_offset: segment
        }
    return tuple(segments[offset] for offset in sorted(segments))
