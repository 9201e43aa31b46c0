"""The file of moved partitions, and the names of future replicas' folders."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.moved_partitions import (
    MovedPartition,
    decode_moved,
    encode_moved,
    folder_of_future,
    future_folder,
)

TOPICS = st.text("abc._-", min_size=1, max_size=20).filter(lambda name: name not in (".", ".."))
UNIQUE = st.text("0123456789abcdef", min_size=32, max_size=32)


@given(
    st.lists(
        st.builds(
            lambda topic, index, unique, id, segment, size: MovedPartition(
                topic, index, id, future_folder(topic, index, unique), segment, size
            ),
            TOPICS, st.integers(0, 10**6), UNIQUE, st.binary(min_size=16, max_size=16), st.integers(0, 2**60),
            st.integers(0, 2**31),
        )
    )
)  # fmt: skip
def test_entries_round_trip(moved: list[MovedPartition]) -> None:
    assert decode_moved(encode_moved(moved)) == moved


@given(st.binary(max_size=200) | st.text().map(str.encode))
def test_other_bytes_are_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        decode_moved(data)


def test_a_path_of_another_folder_is_corrupt() -> None:
    moved = MovedPartition("t", 0, bytes(16), future_folder("t", 0, "0" * 32), 0, 0)
    for future in ("../t-0." + "0" * 32 + "-future", "u-0." + "0" * 32 + "-future", "t-0"):
        with pytest.raises(CorruptIndex):
            decode_moved(encode_moved([moved._replace(future=future)]))


@given(TOPICS, st.integers(0, 1000), UNIQUE)
def test_names_of_future_folders_are_kafkas(topic: str, index: int, unique: str) -> None:
    name = future_folder(topic, index, unique)
    assert name == f"{topic}-{index}.{unique}-future"
    assert folder_of_future(name) == f"{topic}-{index}"
