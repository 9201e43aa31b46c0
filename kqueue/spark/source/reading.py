"""What a task does with its split: the way's records through the decoder to record batches. Knows no Spark; needs pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kqueue.records.columns.decoding import Decoder
from kqueue.spark.source.columns import arrow_schema, record_batch
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.planning import Range
from kqueue.spark.source.ways import loss_handler, open_way

if TYPE_CHECKING:
    import pyarrow as pa

OFFSETS_FEW = 20_000
"""Fewer are decoded by plain Python sooner than numba is imported."""


def read_ranges(options: SourceOptions, ranges: tuple[Range, ...]) -> Iterator[pa.RecordBatch]:
    """The records of these ranges, in order within each.

    Raises: DataLost; CorruptBatch: names the place; what the way raises.
    """
    if not ranges:
        return
    few = sum(one.size for one in ranges) < OFFSETS_FEW
    schema = arrow_schema(headers=options["includeHeaders"])
    decoder = Decoder(engine=options.engine, data_bytes=1 if few else None)
    way = open_way(options)
    try:
        for piece in way.read(ranges, decoder, loss_handler(options.fail_on_data_loss)):
            yield record_batch(piece, schema)
        for piece in decoder.finish():
            yield record_batch(piece, schema)
    finally:
        way.close()
