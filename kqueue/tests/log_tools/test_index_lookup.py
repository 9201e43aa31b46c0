"""The index is a hint: right, wrong, missing or padded, reading returns the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.formats.filenames import INDEX
from kqueue.log_tools.index_lookup import log_end_of, position_of
from kqueue.tests.log_tools.logs import content, made, names, opened, replace

STORAGE, VALUES = made(count=40, segment_bytes=2000)
INDEXES = {name: content(STORAGE, name) for name in names(STORAGE, INDEX)}


@pytest.fixture(autouse=True)
def _whole_again() -> None:
    for name, data in INDEXES.items():
        replace(STORAGE, name, data)


def reads_right() -> None:
    log = opened(STORAGE)
    for offset in range(0, 120, 7):
        assert next(log.records(start_offset=offset)).offset == offset
    assert log.end_offset == 120


def test_a_position_is_near_the_offset() -> None:
    """S4.1: by the index, not by reading from the start."""
    segment = opened(STORAGE).segments[0]
    positions = [position_of(segment, offset) for offset in range(segment.base_offset, log_end_of(segment))]
    assert positions == sorted(positions)
    assert len(set(positions)) > 4
    assert position_of(segment, None) == positions[-1]
    assert position_of(segment, 10**9) == positions[-1]


def test_padding_with_zeros_is_no_entry() -> None:
    for name, data in INDEXES.items():
        replace(STORAGE, name, data + bytes(4096))
    segment = opened(STORAGE).segments[1]
    assert position_of(segment, None) > 1000
    reads_right()


def test_without_indexes() -> None:
    for name in INDEXES:
        STORAGE.remove(f"t-0/{name}")
    assert position_of(opened(STORAGE).segments[0], 20) == 0
    reads_right()


@given(st.binary(max_size=100))
def test_any_bytes_for_an_index(data: bytes) -> None:
    name = min(INDEXES)
    replace(STORAGE, name, data)
    try:
        reads_right()
    finally:
        replace(STORAGE, name, INDEXES[name])
