"""Compiled kernels that hash all values of a binary column, over NumPy views of Arrow's buffers.

`ends` has one more offset than there are values; each is compared with the data before it is
followed. Needs `kqueue[fast]`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import uint32, uint64

from kqueue.records.jit import compiled

_SEED, _MULTIPLIER = uint32(0x9747B28C), uint32(0x5BD1E995)
_CRC_POLYNOMIAL = 0xEDB88320  # CRC-32 of zlib, bits reversed
_SLICES = 4


def _crc_tables() -> Any:
    """`tables[n, byte]`: what a byte does to the checksum when n more bytes follow it."""
    tables: Any = np.zeros((_SLICES, 256), np.uint32)
    for byte in range(256):
        checksum = byte
        for _ in range(8):
            checksum = checksum >> 1 ^ (_CRC_POLYNOMIAL if checksum & 1 else 0)
        tables[0, byte] = checksum
    for number in range(1, _SLICES):
        tables[number] = tables[number - 1] >> np.uint32(8) ^ tables[0, tables[number - 1] & 0xFF]
    return tables


_TABLES = _crc_tables()


@compiled
def _word(data: Any, at: int) -> Any:
    """The four bytes at `at`, the lowest first."""
    return (
        uint32(data[at])
        | uint32(data[at + 1]) << uint32(8)
        | uint32(data[at + 2]) << uint32(16)
        | uint32(data[at + 3]) << uint32(24)
    )


@compiled
def _murmur2(data: Any, start: int, size: int) -> Any:
    at, left = uint64(start), uint64(size)
    result = uint32(_SEED ^ uint32(size))
    while left >= uint64(4):
        word = uint32(_word(data, at) * _MULTIPLIER)
        word = uint32(uint32(word ^ word >> uint32(24)) * _MULTIPLIER)
        result = uint32(uint32(result * _MULTIPLIER) ^ word)
        at += uint64(4)
        left -= uint64(4)
    if left:
        if left == uint64(3):
            result ^= uint32(data[at + uint64(2)]) << uint32(16)
        if left >= uint64(2):
            result ^= uint32(data[at + uint64(1)]) << uint32(8)
        result = uint32(uint32(result ^ uint32(data[at])) * _MULTIPLIER)
    result = uint32(uint32(result ^ result >> uint32(13)) * _MULTIPLIER)
    return uint32(result ^ result >> uint32(15))


@compiled
def _crc32(data: Any, start: int, size: int) -> Any:
    at, left = uint64(start), uint64(size)
    result = uint32(0xFFFFFFFF)
    while left >= uint64(4):
        result ^= _word(data, at)
        far = _TABLES[3, result & uint32(0xFF)] ^ _TABLES[2, result >> uint32(8) & uint32(0xFF)]
        result = uint32(far ^ _TABLES[1, result >> uint32(16) & uint32(0xFF)] ^ _TABLES[0, result >> uint32(24)])
        at += uint64(4)
        left -= uint64(4)
    while left:
        result = uint32(result >> uint32(8) ^ _TABLES[0, (result ^ uint32(data[at])) & uint32(0xFF)])
        at += uint64(1)
        left -= uint64(1)
    return uint32(result ^ uint32(0xFFFFFFFF))


@compiled
def murmur2_all(ends: Any, data: Any, hashes: Any) -> bool:
    """Fill `hashes` (uint32, one per value). Returns: False: an offset exceeds the data."""
    for row in range(len(hashes)):
        start, end = ends[row], ends[row + 1]
        if not 0 <= start <= end <= len(data):
            return False
        hashes[row] = _murmur2(data, start, end - start)
    return True


@compiled
def crc32_all(ends: Any, data: Any, hashes: Any) -> bool:
    """See `murmur2_all`."""
    for row in range(len(hashes)):
        start, end = ends[row], ends[row + 1]
        if not 0 <= start <= end <= len(data):
            return False
        hashes[row] = _crc32(data, start, end - start)
    return True
