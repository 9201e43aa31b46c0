"""Rebuilds the files that derive from a partition's batches.

They are the indexes, transaction indexes, producer snapshots and the leader epoch checkpoint.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from itertools import pairwise

from kqueue.base.errors import CorruptBatch, CorruptIndex
from kqueue.log.formats.filenames import EPOCHS, INDEX, LOG, SNAPSHOT, TIMEINDEX, TXNINDEX, file_name
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs, encode_epochs
from kqueue.log.formats.producer_snapshot import decode_snapshot, encode_snapshot
from kqueue.log.formats.transaction_index import AbortedTxn
from kqueue.log.index_builder import IndexBuilder
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import apply_batch
from kqueue.log.scanner.batch_scanner import CorruptRange, ScannedBatch
from kqueue.log.scanner.header_validation import validated_batches
from kqueue.records.batch import BatchHeader
from kqueue.storage import File, Storage

INTERVAL_BYTES = 4096  # the default of index.interval.bytes; the topic's value is not in the files


class IndexRebuild:
    """Reads a partition once and builds the `wanted` files (names) in `files`.

    `end_offset`: the end of the log. A snapshot beyond the end cannot be built and is left out.
    """

    def __init__(
        self,
        storage: Storage,
        folder: str,
        bases: list[int],
        wanted: Iterable[str],
        log_start: int,
        *,
        interval_bytes: int = INTERVAL_BYTES,
    ) -> None:
        self.storage = storage
        self.folder = folder
        self.bases = bases
        self.wanted = set(wanted)
        self.log_start = log_start
        self.interval_bytes = interval_bytes
        self.files: dict[str, bytes] = {}
        self.end_offset = bases[0] if bases else 0
        self._producers = ProducerStateManager()
        self._epochs = LeaderEpochCache()
        self._offsets = sorted(int(name[:20]) for name in self.wanted if name.endswith(SNAPSHOT))

    def run(self) -> None:
        """Build the files. Raises: StorageFailed, FileNotFoundError."""
        if self.bases:
            self._begin(self.bases[0])
        for base, limit in pairwise((*self.bases, None)):
            assert base is not None
            self._segment(base, limit)
        self._snapshots_up_to(self.end_offset)
        if EPOCHS in self.wanted:
            if self.bases and self.log_start < self.bases[0]:
                self._keep_earlier_epochs()
            self._epochs.truncate_from_start(self.log_start)
            self.files[EPOCHS] = encode_epochs(self._epochs)

    def _keep_earlier_epochs(self) -> None:
        """Keep the epochs of what only a remote tier has: no batch here tells them."""
        with contextlib.suppress(FileNotFoundError, CorruptIndex):
            stored = decode_epochs(self.storage.read(f"{self.folder}/{EPOCHS}"))
            stored.truncate_from_end(self.bases[0])
            self._epochs.put_in_front(stored.entries(), self.bases[0])

    def _begin(self, base: int) -> None:
        name = file_name(base, SNAPSHOT)
        if name not in self.wanted:
            with contextlib.suppress(FileNotFoundError, CorruptIndex):
                self._producers = decode_snapshot(self.storage.read(f"{self.folder}/{name}"), base)
        self._producers.end_offset = base

    def _segment(self, base: int, limit: int | None) -> None:
        file = self.storage.open(f"{self.folder}/{file_name(base, LOG)}")
        indexes = IndexBuilder(base, self.interval_bytes)
        for item in validated_batches(file, file.size, base, limit=limit, first=max(base, self.end_offset)):
            if isinstance(item, CorruptRange):
                continue  # the verification that follows reports it
            self._snapshots_up_to(item.header.last_offset)
            indexes.add(item.position, item.header.last_offset, item.header.max_timestamp)
            aborted = self._apply(file, item)
            if aborted is not None:
                indexes.add_aborted(aborted)
            self.end_offset = item.header.last_offset + 1
        file.close()
        self.end_offset = max(self.end_offset, base)
        indexes.finish()
        contents = {
            INDEX: indexes.offset_index,
            TIMEINDEX: indexes.time_index,
            TXNINDEX: indexes.transaction_index,
        }
        for suffix, data in contents.items():
            if file_name(base, suffix) in self.wanted:
                self.files[file_name(base, suffix)] = bytes(data)

    def _apply(self, file: File, item: ScannedBatch) -> AbortedTxn | None:
        unit = item.header
        if not isinstance(unit, BatchHeader):
            return None
        if unit.leader_epoch > self._epochs.latest:
            self._epochs.assign(unit.leader_epoch, unit.base_offset)
        with contextlib.suppress(CorruptBatch):  # an unreadable marker ends no transaction
            return apply_batch(self._producers, file, item.position, unit)
        return None

    def _snapshots_up_to(self, last_offset: int) -> None:
        while self._offsets and self._offsets[0] <= last_offset:
            self.files[file_name(self._offsets.pop(0), SNAPSHOT)] = encode_snapshot(self._producers)
