"""Damage is reported, never returned, and hides no other batch."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.log.recovery.damage import Damage
from kqueue.tests.log_tools.logs import FOLDER, content, made, names, opened, replace

STORAGE, VALUES = made()
FILES = {name: content(STORAGE, name) for name in names(STORAGE)}
SIZE = 106  # of one batch here


def all_values(**options: object) -> list[bytes | None]:
    return [record.value for record in opened(STORAGE).records(**options)]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _whole_again() -> None:
    for name, data in FILES.items():
        replace(STORAGE, name, data)


def test_the_log_is_as_the_tests_think() -> None:
    assert len(FILES) == 4
    assert {len(data) for data in FILES.values()} == {3 * SIZE}
    assert all_values() == VALUES


@given(name=st.sampled_from(sorted(FILES)), position=st.integers(0, 3 * SIZE - 1), mask=st.integers(1, 255))
def test_a_bit_that_flipped_costs_its_batch_alone(name: str, position: int, mask: int) -> None:
    within = position % SIZE
    number = sorted(FILES).index(name) * 3 + position // SIZE
    data = bytearray(FILES[name])
    data[position] ^= mask
    replace(STORAGE, name, bytes(data))
    try:
        told: list[Damage] = []
        values = all_values(on_damage=told.append)
        rest = VALUES[: 3 * number] + VALUES[3 * number + 3 :]
        if within < 8:  # the offset, which no checksum covers: this batch or the next stands out
            assert told or [record.offset for record in opened(STORAGE)] != list(range(36))
        elif 12 <= within < 16:  # nor the leader epoch
            assert (values, told) == (VALUES, [])
        elif number == 11 and 8 <= within < 12:  # the length of the very last: it may look torn
            assert values == rest
        else:
            assert values == rest
            assert [(damage.file, damage.position) for damage in told] == [
                (f"memory/{FOLDER}/{name}", position - within)
            ]
            assert all_values(on_damage="skip") == rest
            with pytest.raises(CorruptBatch, match=rf"{name} at position {position - within}: expected .+, found "):
                all_values()
    finally:
        replace(STORAGE, name, FILES[name])


@given(
    name=st.sampled_from(sorted(FILES)),
    first=st.integers(0, 3 * SIZE - 1),
    size=st.integers(1, 200),
    byte=st.sampled_from((0, 255)),
)
def test_a_stretch_that_is_lost_costs_what_lay_in_it(name: str, first: int, size: int, byte: int) -> None:
    data = bytearray(FILES[name])
    end = min(first + size, len(data))
    data[first:end] = bytes([byte]) * (end - first)
    replace(STORAGE, name, bytes(data))
    try:
        start = sorted(FILES).index(name) * 9
        pieces = [(data[SIZE * number :][:SIZE], FILES[name][SIZE * number :][:SIZE]) for number in range(3)]
        changed = [start // 3 + number for number, (now, before) in enumerate(pieces) if now != before]
        unchecked = any(now != before and now[8:12] + now[16:] == before[8:12] + before[16:] for now, before in pieces)
        assert unchecked or all_values(on_damage="skip") == [
            value for at, value in enumerate(VALUES) if at // 3 not in changed
        ]
    finally:
        replace(STORAGE, name, FILES[name])


@pytest.mark.parametrize("size", [1, 8, 16, 17, 60, 61, 62, SIZE - 1])
def test_a_torn_tail_is_no_damage_in_the_last_segment(size: int) -> None:
    last = max(FILES)
    replace(STORAGE, last, FILES[last][: 2 * SIZE + size])
    log = opened(STORAGE)
    assert [record.value for record in log] == VALUES[:-3]
    assert log.end_offset == 33


@pytest.mark.parametrize("zeros", [1, 20, 100, 5000])
def test_zeros_allocated_beforehand_are_no_damage_in_the_last_segment(zeros: int) -> None:
    last = max(FILES)
    replace(STORAGE, last, FILES[last] + bytes(zeros))
    assert all_values() == VALUES


@pytest.mark.parametrize("tail", [b"\0", bytes(100), b"\1" * 50])
def test_bytes_at_the_end_of_another_segment_are_damage(tail: bytes) -> None:
    first = min(FILES)
    replace(STORAGE, first, FILES[first] + tail)
    with pytest.raises(CorruptBatch, match=f"{first} at position {3 * SIZE}: expected a batch"):
        all_values()
    assert all_values(on_damage="skip") == VALUES


def test_a_length_that_reaches_beyond_the_end_does_not_hide_what_follows() -> None:
    last = max(FILES)
    data = bytearray(FILES[last])
    data[9] ^= 1
    replace(STORAGE, last, bytes(data))
    with pytest.raises(CorruptBatch, match=f"{last} at position 0: expected a batch of {SIZE + (1 << 16)} bytes"):
        all_values()
    assert all_values(on_damage="skip") == VALUES[:27] + VALUES[30:]


def test_offsets_rise_and_stay_below_the_next_segment() -> None:
    first, second = sorted(FILES)[:2]
    data = FILES[first]
    replace(STORAGE, first, data[:SIZE] + data)
    with pytest.raises(CorruptBatch, match=f"{first} at position {SIZE}: expected offsets from 3 to 8, found 0 to 2"):
        all_values()
    assert all_values(on_damage="skip") == VALUES
    replace(STORAGE, first, data + FILES[second][:SIZE])
    with pytest.raises(CorruptBatch, match="expected no offset from 9 on, found 9 to 11"):
        all_values()
    assert all_values(on_damage="skip") == VALUES
