"""A read task: its ranges through the reader and the decoder to record batches. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING, TypeVar

from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.source.columns import arrow_schema, record_batch, with_values
from kqueue.spark.source.options import SourceOptions
from kqueue.spark.source.reader_factory import open_reader
from kqueue.spark.source.record_reader import data_loss_handler
from kqueue.spark.source.split_planner import OffsetRange

if TYPE_CHECKING:
    import pyarrow as pa

    from kqueue.spark.value_formats.decoder import ValueSchema

T = TypeVar("T")
OFFSETS_FEW = 20_000
"""Below this number of offsets plain Python decodes faster than importing numba takes."""


def read_ranges(
    options: SourceOptions, ranges: tuple[OffsetRange, ...], values: ValueSchema | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of these ranges, in order within each range.

    Args:
        values: by which they are decoded; None: they stay bytes.
    Raises: DataLost. CorruptBatch: names the location. What the reader raises, and `with_values`.
    """
    if ranges:
        few = sum(one.size for one in ranges) < OFFSETS_FEW
        made = _record_batches(options, ranges, few=few)
        if values is not None:
            made = _decoded(options, made, values)
        yield from made if few else prefetch_one(made)


def _decoded(
    options: SourceOptions, batches: Generator[pa.RecordBatch, None, None], values: ValueSchema
) -> Generator[pa.RecordBatch, None, None]:
    from kqueue.spark.value_formats.decoder import ValueDecoder

    decoder = ValueDecoder(values)
    schema = arrow_schema(headers=options["includeHeaders"], value=decoder.type, permissive=values.permissive)
    with closing(batches):
        for batch in batches:
            yield with_values(batch, schema, decoder)


def prefetch_one(made: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield items while a thread computes the next one. None ends the iteration.

    The caller sends each item to the JVM, which overlaps with decoding.
    """
    with closing(made), ThreadPoolExecutor(1, "kqueue-decode") as pool:
        coming = pool.submit(next, made, None)
        while (one := coming.result()) is not None:
            coming = pool.submit(next, made, None)
            yield one


def _record_batches(
    options: SourceOptions, ranges: tuple[OffsetRange, ...], *, few: bool
) -> Generator[pa.RecordBatch, None, None]:
    schema = arrow_schema(headers=options["includeHeaders"])
    decoder = ColumnDecoder(engine=options.engine, data_bytes=1 if few else None)
    reader = open_reader(options)
    try:
        for piece in reader.read(ranges, decoder, data_loss_handler(options.fail_on_data_loss)):
            yield record_batch(piece, schema)
        for piece in decoder.finish():
            yield record_batch(piece, schema)
    finally:
        reader.close()
