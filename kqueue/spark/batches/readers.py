"""Lists what is whole, for readers of any kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.spark.batches.batches import Batches
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.stores import Location, location_of, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RECORDS = "records"
CHECKPOINTS = "checkpoints"


def whole_files(place: str | Location, table: str | None = None, *, spark: SparkSession | None = None) -> list[str]:
    """Return the paths or URLs of all files of whole batches, oldest first.

    Args:
        table: of the tables of `ingest`; None: the place is an archive.
        spark: for URLs that only Hadoop knows.
    Raises: PipelineFailed: there is neither, or it cannot be read.
    """
    store = open_store(location_of(place), spark)
    if table is None:
        batches = Batches(store, RECORDS)
    else:
        batches = Batches(store, table, f"{CHECKPOINTS}/{table}", folder_each=True)
    whole = [batch for number in batches.numbers() if (batch := batches.read(number)) is not None]
    if not whole:
        raise PipelineFailed(f"{store.of(batches.data)} has no whole batch")
    return [store.of(batches.data, file) for batch in whole for file in batch.files]
