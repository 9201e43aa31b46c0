from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch, InvalidRecord
from kqueue.records.varints import VARINTS, Varints, encode, read_raw
from kqueue.tests.tables import for_each

PUBLISHED = [  # the protocol buffers documentation's zigzag table, and the edges of one, two and more bytes
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (-2, "03"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (8192, "808001"),
    (2147483647, "feffffff0f"),
    (-2147483648, "ffffffff0f"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
]


def unzigzag(raw: int) -> int:
    """Return the signed number of a zigzag-encoded one."""
    return (raw >> 1) ^ -(raw & 1)


@for_each("number, encoded", PUBLISHED)
def test_varints_have_the_known_encodings(number: int, encoded: str) -> None:
    assert encode(number).hex() == encoded
    raw, end = read_raw(bytes.fromhex(encoded), 0, 64)
    assert (unzigzag(raw), end) == (number, len(encoded) // 2)


@given(st.integers(-(2**63), 2**63 - 1), st.binary(max_size=3), st.binary(max_size=3))
def test_round_trip_in_the_midst_of_other_bytes(number: int, before: bytes, after: bytes) -> None:
    encoded = VARINTS[number]
    raw, end = read_raw(before + encoded + after, len(before), 64)
    assert unzigzag(raw) == number
    assert end == len(before) + len(encoded)


@for_each("number", [2**63, -(2**63) - 1])
def test_a_number_beyond_64_bits_is_refused(number: int) -> None:
    with pytest.raises(InvalidRecord, match="64 bits"):
        encode(number)


@for_each(
    "data, bits",
    [
        ("ffffffff1f", 32),
        ("8080808080", 32),
        ("808080808000", 32),
        ("ffffffffffffffffff02", 64),
        ("8080808080808080808000", 64),
    ],
)
def test_too_many_bits_are_corrupt(data: str, bits: int) -> None:
    with pytest.raises(CorruptBatch, match=f"{bits} bits"):
        read_raw(bytes.fromhex(data), 0, bits)


def test_more_bytes_than_needed_are_read_as_java_reads_them() -> None:
    assert read_raw(bytes.fromhex("828000"), 0, 32) == (2, 3)


def test_data_that_ends_within_a_number() -> None:
    with pytest.raises(IndexError):
        read_raw(b"\x80", 0, 32)


def test_only_small_numbers_are_remembered() -> None:
    varints = Varints()
    assert varints[2**40] == encode(2**40)
    assert not varints
    assert varints[5] == encode(5)
    assert varints[-4096] == encode(-4096)
    assert set(varints) == {5, -4096}
