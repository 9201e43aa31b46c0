"""The compiled hash of keys: SipHash-2-4 with 128 bits.

Each map draws a random seed, so that clients cannot construct keys that collide.
Source: Aumasson and Bernstein, SipHash: a fast short-input PRF.
"""

from __future__ import annotations

from typing import Any

from numba import uint64

from kqueue.records.batch_kernels import word_at
from kqueue.records.jit import compiled


@compiled
def _turn(word: int, bits: int) -> int:
    return (word << uint64(bits)) | (word >> uint64(64 - bits))


@compiled
def _round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a += b
    c += d
    b = _turn(b, 13) ^ a
    d = _turn(d, 16) ^ c
    a = _turn(a, 32) + d
    c += b
    d = _turn(d, 21) ^ a
    b = _turn(b, 17) ^ c
    return a, b, _turn(c, 32), d


@compiled
def hash_bytes(data: Any, pos: int, size: int, seed: Any) -> tuple[int, int]:
    """The two halves of the hash of `size` bytes; `seed`: two words."""
    a = seed[0] ^ uint64(0x736F6D6570736575)
    b = seed[1] ^ uint64(0x646F72616E646F6D) ^ uint64(0xEE)
    c = seed[0] ^ uint64(0x6C7967656E657261)
    d = seed[1] ^ uint64(0x7465646279746573)
    last = pos + size - (size & 7)
    while pos <= last:
        word = word_at(data, pos, 8) if pos < last else word_at(data, pos, size & 7) | uint64(size) << uint64(56)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        pos += 8
    c ^= uint64(0xEE)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    low = a ^ b ^ c ^ d
    b ^= uint64(0xDD)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    return low, a ^ b ^ c ^ d
