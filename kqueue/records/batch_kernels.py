"""Compiled kernels that read headers and checksums of small batches. Needs `kqueue[fast]`.

For such batches a Python call each would cost more than the reading.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64, uint64

from kqueue.records.jit import compiled

SMALL_BYTES = 4096  # largest batch that these kernels read

# positions in a batch; see `batch_header`
LENGTH, LENGTH_END, EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA = 8, 12, 12, 16, 17, 21, 23
BASE_TIME, MAX_TIME, PRODUCER, PRODUCER_EPOCH, SEQUENCE, COUNT, HEADER_BYTES = 27, 35, 43, 51, 53, 57, 61

_POLYNOMIAL = 0x82F63B78  # Castagnoli, bits reversed


@compiled
def word_at(data: Any, pos: int, size: int) -> Any:
    """Return the `size` bytes from `pos` on as a little-endian number."""
    word = uint64(0)
    for number in range(size):
        word |= uint64(data[pos + number]) << uint64(8 * number)
    return word


def _crc_tables() -> Any:
    tables: Any = np.zeros((8, 256), np.uint64)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (_POLYNOMIAL if crc & 1 else 0)
        tables[0, byte] = crc
    for number in range(1, 8):
        before = tables[number - 1]
        tables[number] = tables[0][before & np.uint64(0xFF)] ^ (before >> np.uint64(8))
    return tables


_CRC_TABLES = _crc_tables()  # per byte, followed by zero to seven more bytes


@compiled
def checksum(data: Any, pos: int, end: int) -> Any:
    """Return the CRC-32C of `data[pos:end]`, eight bytes per step: for small batches."""
    crc = uint64(0xFFFFFFFF)
    while pos + 8 <= end:
        word = word_at(data, pos, 8) ^ crc
        crc = uint64(0)
        for number in range(8):
            crc ^= _CRC_TABLES[7 - number, (word >> uint64(8 * number)) & uint64(0xFF)]
        pos += 8
    for rest in range(pos, end):
        crc = _CRC_TABLES[0, (crc ^ uint64(data[rest])) & uint64(0xFF)] ^ (crc >> uint64(8))
    return crc ^ uint64(0xFFFFFFFF)


@compiled
def number_at(data: Any, pos: int, size: int) -> Any:
    """Return the signed big-endian number of `size` bytes at `pos`."""
    number = uint64(0)
    for index in range(pos, pos + size):
        number = number << uint64(8) | uint64(data[index])
    return int64(number << uint64(64 - 8 * size)) >> int64(64 - 8 * size)


@compiled
def put_number(data: Any, pos: int, size: int, value: int) -> None:
    """Write a big-endian number of `size` bytes at `pos`."""
    for number in range(size):
        data[pos + number] = (value >> (8 * (size - 1 - number))) & 0xFF


@compiled
def small_batch(data: Any, pos: int, allowed: int, check: bool) -> tuple[int, int, int, int]:
    """Return (end, base offset, last offset delta, record count) of the batch at `pos`.

    The end is 0 for a batch that other code must read: incomplete, not of magic 2, large, with an
    invalid header or (if `check`) checksum, or with attributes beside `allowed`.
    """
    other = int64(0), int64(0), int64(0), int64(0)
    if len(data) - pos < HEADER_BYTES or data[pos + MAGIC] != 2:
        return other
    end = pos + LENGTH_END + number_at(data, pos + LENGTH, 4)
    if (
        end - pos < HEADER_BYTES
        or end - pos > SMALL_BYTES
        or end > len(data)
        or number_at(data, pos + ATTRIBUTES, 2) & ~allowed
    ):
        return other
    delta_max, count = number_at(data, pos + LAST_DELTA, 4), number_at(data, pos + COUNT, 4)
    if delta_max < 0 or not 0 <= count <= delta_max + 1:
        return other
    if check and int64(checksum(data, pos + ATTRIBUTES, end)) != number_at(data, pos + CRC, 4) & 0xFFFFFFFF:
        return other
    return end, number_at(data, pos, 8), delta_max, count


@compiled
def read_headers(data: Any, pos: int, allowed: int, check: bool, table: Any) -> tuple[int, int]:
    """Write position and header of the small batches from `pos` on to the rows of `table`.

    Returns: the number of batches, and the end of the last one.
    """
    count = int64(0)
    while count < len(table):
        end, base_offset, delta_max, records = small_batch(data, pos, allowed, check)
        if end == 0:
            break
        row = table[count]
        row[0], row[1], row[2], row[3] = pos, base_offset, end - pos - LENGTH_END, number_at(data, pos + EPOCH, 4)
        row[4], row[5], row[6] = 2, number_at(data, pos + CRC, 4) & 0xFFFFFFFF, number_at(data, pos + ATTRIBUTES, 2)
        row[7], row[8], row[9] = delta_max, number_at(data, pos + BASE_TIME, 8), number_at(data, pos + MAX_TIME, 8)
        row[10], row[11] = number_at(data, pos + PRODUCER, 8), number_at(data, pos + PRODUCER_EPOCH, 2)
        row[12], row[13] = number_at(data, pos + SEQUENCE, 4), records
        pos = end
        count += 1
    return count, pos
