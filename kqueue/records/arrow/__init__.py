"""Conversion of record batches to Apache Arrow columns and back, without a Python object per
record.

Needs pyarrow (`kqueue[arrow]`). With numba (`kqueue[fast]`) the loops over records are compiled;
without it they are plain Python, with the same results.
"""

from __future__ import annotations

from kqueue.records.arrow.contract import ChunkLimits, ColumnChunk, RecordRange
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.records.arrow.derived_columns import sequences, tag_column, timestamps
from kqueue.records.arrow.encoder import EncodedBatch, encode_batches
from kqueue.records.arrow.partitioning import crc32_of, murmur2_of, partitions_of

__all__ = [
    "ChunkLimits",
    "ColumnChunk",
    "ColumnDecoder",
    "EncodedBatch",
    "RecordRange",
    "crc32_of",
    "encode_batches",
    "murmur2_of",
    "partitions_of",
    "sequences",
    "tag_column",
    "timestamps",
]
