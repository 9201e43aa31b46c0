"""Record batches to columns of Apache Arrow and back, without a Python object for each record.
Needs pyarrow (`kqueue[arrow]`).

With numba (`kqueue[fast]`) the loops over records are compiled; without it they are plain Python,
and do the same.
"""

from __future__ import annotations

from kqueue.records.columns.contract import Bounds, Limits, Piece
from kqueue.records.columns.decoding import Decoder
from kqueue.records.columns.encoding import Encoded, encode_batches
from kqueue.records.columns.placing import crc32_of, murmur2_of, partitions_of
from kqueue.records.columns.shared import sequences, spread, timestamps

__all__ = [
    "Bounds",
    "Decoder",
    "Encoded",
    "Limits",
    "Piece",
    "crc32_of",
    "encode_batches",
    "murmur2_of",
    "partitions_of",
    "sequences",
    "spread",
    "timestamps",
]
