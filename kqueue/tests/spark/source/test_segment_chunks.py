from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.log_tools import open_log
from kqueue.records.batch import iter_batches
from kqueue.records.builder import BatchBuilder
from kqueue.records.message_set import encode_set
from kqueue.records.record import Record
from kqueue.spark.source.segment_chunks import CHUNK_BYTES, FIRST_BYTES, valid_chunks


def batch(base: int, count: int = 1, size: int = 10) -> bytes:
    builder = BatchBuilder("none", base_offset=base)
    for _ in range(count):
        builder.append(1, None, bytes(size))
    return bytes(builder.build())


def log(folder: Path, *segments: tuple[int, bytes]) -> Path:
    topic_partition = folder / "t-0"
    topic_partition.mkdir()
    for base, data in segments:
        (topic_partition / f"{base:020d}.log").write_bytes(data)
    return topic_partition


def read(topic_partition: Path, start: int, end: int) -> list[int]:
    """The base offsets that come."""
    offsets = []
    for chunk in valid_chunks(open_log(topic_partition), start, end):
        headers = [header for _, header in iter_batches(chunk.data)]
        assert sum(header.size for header in headers) == len(chunk.data), "whole batches"
        assert headers[-1].next_offset == chunk.next_offset
        offsets += [header.base_offset for header in headers]
    return offsets


def test_every_segment_that_overlaps_the_range_is_read(tmp_path: Path) -> None:
    topic_partition = log(
        tmp_path, (0, batch(0) + batch(1)), (2, batch(2) + batch(5)), (6, batch(6) + batch(7)), (8, batch(8))
    )
    assert read(topic_partition, 0, 9) == [0, 1, 2, 5, 6, 7, 8]
    assert read(topic_partition, 3, 7) == [2, 5, 6, 7], "whole files where they are small; bounds are the decoder's"
    assert read(topic_partition, 6, 7) == [6, 7]
    assert read(topic_partition, 9, 12) == [8]


def test_log_larger_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    data = b"".join(batch(number, size=100_000) for number in range(60))
    assert len(data) > FIRST_BYTES + CHUNK_BYTES
    assert read(log(tmp_path, (0, data)), 0, 60) == list(range(60))


def test_chunks_end_with_the_range(tmp_path: Path) -> None:
    data = b"".join(batch(number, size=100_000) for number in range(60))
    assert read(log(tmp_path, (0, data)), 0, 2) == [0, 1]


def test_batch_larger_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    topic_partition = log(tmp_path, (0, batch(0) + batch(1, size=CHUNK_BYTES + 10) + batch(2)))
    assert read(topic_partition, 0, 3) == [0, 1, 2]


@pytest.mark.parametrize(
    "wrong",
    [
        batch(1),
        bytes(61),
        batch(100),
        encode_set([Record(3, 1, None, b"x", ())], 1),
        batch(3)[:8] + (48).to_bytes(4, "big") + batch(3)[12:],
        batch(3)[:8] + (2**31 - 1).to_bytes(4, "big") + batch(3)[12:],
        batch(3)[:23] + b"\xff" * 4 + batch(3)[27:],
    ],
    ids=["back", "zeros", "beyond", "old", "short", "long", "negative"],
)
def test_chunks_stop_before_a_doubtful_batch(tmp_path: Path, wrong: bytes) -> None:
    topic_partition = log(tmp_path, (0, batch(0) + batch(1) + batch(2) + wrong + batch(4)), (50, batch(50)))
    assert read(topic_partition, 0, 60) in ([0, 1], [0, 1, 2]), "what nothing bears out is for those who look closer"


def test_batch_with_too_high_an_offset_ends_the_read(tmp_path: Path) -> None:
    """No checksum covers it; what follows tells."""
    topic_partition = log(tmp_path, (0, batch(0) + batch(1) + batch(40) + batch(3) + batch(4)), (50, batch(50)))
    assert read(topic_partition, 0, 60) == [0, 1]
    assert read(topic_partition, 0, 20) == [0, 1]


@pytest.mark.parametrize("more", [-1, 0, 1, 26, 27, 28, 60, 61])
def test_batches_cut_by_a_chunk_are_read_whole(tmp_path: Path, more: int) -> None:
    first = batch(0, size=FIRST_BYTES - len(batch(0, size=FIRST_BYTES - 100)) + FIRST_BYTES - 100 - more)
    assert len(first) == FIRST_BYTES - more
    assert read(log(tmp_path, (0, first + batch(1) + batch(2))), 0, 3) == [0, 1, 2]


def test_torn_batch_at_the_end_is_left_out(tmp_path: Path) -> None:
    assert read(log(tmp_path, (0, batch(0) + batch(1) + batch(2)[:-1])), 0, 60) == [0, 1]
