"""The compiled hash gives what is published of it."""

from __future__ import annotations

from typing import Any

import pytest

np: Any = pytest.importorskip("numpy", reason="kqueue[fast] is not installed")
pytest.importorskip("numba", reason="kqueue[fast] is not installed")
from kqueue.log.compaction import siphash  # noqa: E402


def test_hashes_equal_the_published_test_vectors() -> None:
    """The vectors of SipHash-2-4 with 128 bits for no byte and one, under the key 00..0f; longer
    messages against plain numbers.
    """
    seed = np.frombuffer(bytes(range(16)), np.uint64)

    def digest(size: int) -> str:
        halves = siphash.hash_bytes(np.frombuffer(bytes(range(64)), np.uint8), 0, size, seed)
        return "".join(int(half).to_bytes(8, "little").hex() for half in halves)

    assert digest(0) == "a3817f04ba25a8e66df67214c7550293"
    assert digest(1) == "da87c1d86b99af44347659119b22fc45"
    assert digest(15) == _siphash(bytes(range(15)), bytes(range(16))).hex()
    assert digest(64) == _siphash(bytes(range(64)), bytes(range(16))).hex()


def _siphash(data: bytes, key: bytes) -> bytes:
    """SipHash-2-4-128 again, by the paper and in plain numbers."""
    mask = 2**64 - 1
    k0, k1 = int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little")
    v = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D ^ 0xEE, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]

    def turn(word: int, bits: int) -> int:
        return (word << bits | word >> (64 - bits)) & mask

    def rounds(count: int) -> None:
        for _ in range(count):
            for a, b, bits, half in ((0, 1, 13, True), (2, 3, 16, False), (0, 3, 21, False), (2, 1, 17, True)):
                v[a] = (v[a] + v[b]) & mask
                v[b] = turn(v[b], bits) ^ v[a]
                v[a] = turn(v[a], 32) if half else v[a]

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        rounds(2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(4)
    low = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(4)
    return low.to_bytes(8, "little") + (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")
