"""An archive: batches of records, and the state after each.

records/topic=orders/date=2026-01-31/00000007-….parquet   records of batch 7;
    date=__HIVE_DEFAULT_PARTITION__: no timestamp
batches/00000007.json                                     its manifest; see `kqueue.spark.batches`
.staging/                                                 a batch that is being written
.lock                                                     held by the running job, on mounted
    file systems
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import FolderInUse
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.batches import Batch, Batches, Staged
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.offsets import Offsets, from_json, to_json
from kqueue.spark.stores import Location, open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = "records"
BY = ("topic", "date")


@dataclass(frozen=True, slots=True)
class ArchivedBatch:
    """One batch, and the state of the archive after it.

    id: of the archive. ends: the next offset to archive of each known partition. rows: records of
    this batch. rows_total: records up to and including it. files: of this batch, below `records`.
    """

    number: int
    id: str
    ends: Offsets = field(default_factory=dict)
    rows: int = 0
    rows_total: int = 0
    files: tuple[str, ...] = ()

    @property
    def partitions(self) -> dict[str, int]:
        """The number of partitions of each topic."""
        counts: dict[str, int] = {}
        for topic_partition in self.ends:
            counts[topic_partition.topic] = max(counts.get(topic_partition.topic, 0), topic_partition.partition + 1)
        return counts


class Archive:
    """An archive in any store. Methods raise PipelineFailed or StorageFailed: it cannot be read or
    written.
    """

    def __init__(self, spark: SparkSession | None, place: Location) -> None:
        """Open an archive. Args: spark: None: it is only read, and not in a place of Hadoop."""
        self.store = open_store(place, spark)
        self._batches = Batches(self.store, RECORDS)

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder's lock during the block, where there are locks. Raises: FolderInUse."""
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(self.store.lock(".lock"))
            except FolderInUse:
                raise FolderInUse(
                    f"another archive is at work on {self.store.url}: wait until it is done, or take another folder"
                ) from None
            yield

    def batches(self) -> list[ArchivedBatch]:
        """Return all batches, oldest first; none if there is no archive."""
        batches = (self._batches.read(number) for number in self._batches.numbers())
        return [self._archived(batch) for batch in batches if batch is not None]

    def last(self) -> ArchivedBatch | None:
        """Return the newest batch."""
        last = self._batches.last()
        return None if last is None else self._archived(last)

    def recover(self, number: int) -> ArchivedBatch | None:
        """Do the rest of a batch of an interrupted run; None: it is not decided."""
        batch = self._batches.recover(number)
        return None if batch is None else self._archived(batch)

    def stage(self, records: DataFrame, number: int, codec: str) -> Staged:
        """Write the records of a batch where no reader looks."""
        return self._batches.stage(records, number, BY, codec)

    def commit(self, staged: Staged, archive_id: str, ends: Offsets, rows_total: int) -> ArchivedBatch:
        """Make staged records a batch of the archive."""
        about = {"archive": archive_id, "next": to_json(ends), "rows_total": rows_total}
        return self._archived(self._batches.commit(staged, about))

    def _archived(self, batch: Batch) -> ArchivedBatch:
        """Return a batch of the archive. Raises PipelineFailed: it has another form."""
        about: dict[str, Any] = dict(batch.about)
        try:
            ends = {
                TopicPartition(*topic_partition): offset
                for topic_partition, offset in from_json(about["next"], "next").items()
            }
            return ArchivedBatch(
                batch.number, str(about["archive"]), ends, batch.rows, int(about["rows_total"]), batch.files
            )
        except (ValueError, KeyError, TypeError) as error:
            where = f"batch {batch.number} of {self.store.url}"
            raise PipelineFailed(f"{where} is no description of an archive's batch: {error!r}") from None
