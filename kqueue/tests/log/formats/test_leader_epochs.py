from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats.leader_epochs import LeaderEpochCache, decode_epochs, encode_epochs
from kqueue.tests.tables import for_each


def of(*entries: tuple[int, int]) -> LeaderEpochCache:
    epochs = LeaderEpochCache()
    for entry in entries:
        epochs.assign(*entry)
    return epochs


def test_the_same_epoch_again_changes_nothing() -> None:
    epochs = of((0, 0), (3, 10))
    epochs.changed = False
    epochs.assign(3, 10)
    epochs.assign(3, 50)
    epochs.assign(-1, 60)
    assert epochs.entries() == [(0, 0), (3, 10)]
    assert epochs.latest == 3
    assert not epochs.changed


@for_each(
    "entry, expected",
    [
        ((4, 20), [(0, 0), (3, 10), (4, 20)]),
        ((4, 10), [(0, 0), (4, 10)]),
        ((4, 5), [(0, 0), (4, 5)]),
        ((2, 30), [(0, 0), (2, 30)]),
        ((3, 4), [(0, 0), (3, 4)]),
        ((1, 0), [(1, 0)]),
    ],
)
def test_a_new_entry_drops_those_that_contradict_it(entry: tuple[int, int], expected: list[tuple[int, int]]) -> None:
    epochs = of((0, 0), (3, 10))
    epochs.assign(*entry)
    assert epochs.entries() == expected
    assert epochs.latest == expected[-1][0]


@for_each(
    "epoch, expected",
    [(-1, (-1, -1)), (0, (0, 15)), (1, (1, 5)), (2, (2, 15)), (3, (2, 15)), (5, (5, 99)), (6, (-1, -1))],
)
def test_epoch_ends_where_the_next_begins(epoch: int, expected: tuple[int, int]) -> None:
    """As Kafka answers OffsetsForLeaderEpoch: the largest epoch not above the one asked for, and
    where the next begins.
    """
    epochs = of((2, 5), (5, 15))
    if epoch == 0:
        expected = (0, 5)
    assert epochs.end_offset_for(epoch, 99) == expected
    assert LeaderEpochCache().end_offset_for(epoch, 99) == (-1, -1)


def test_epoch_at_returns_the_epoch_of_an_offset() -> None:
    epochs = of((2, 5), (5, 15))
    assert [epochs.epoch_at(offset) for offset in (0, 4, 5, 14, 15, 1000)] == [-1, -1, 2, 2, 5, 5]


def test_truncation_at_the_end_forgets_epochs_that_begin_there_or_later() -> None:
    epochs = of((0, 0), (1, 10), (2, 20))
    epochs.truncate_from_end(11)
    assert epochs.entries() == [(0, 0), (1, 10)]
    epochs.truncate_from_end(10)
    assert epochs.entries() == [(0, 0)]
    epochs.truncate_from_end(0)
    assert epochs.entries() == []
    assert epochs.latest == -1


@for_each(
    "start, expected",
    [
        (0, [(0, 0), (1, 10), (2, 20)]),
        (5, [(0, 5), (1, 10), (2, 20)]),
        (10, [(1, 10), (2, 20)]),
        (15, [(1, 15), (2, 20)]),
        (99, [(2, 99)]),
    ],
)
def test_truncation_at_the_start_moves_the_epoch_that_holds_it(start: int, expected: list[tuple[int, int]]) -> None:
    epochs = of((0, 0), (1, 10), (2, 20))
    epochs.changed = False
    epochs.truncate_from_start(start)
    assert epochs.entries() == expected
    assert epochs.changed == (start > 0)


def test_truncation_at_the_start_leaves_later_epochs_alone() -> None:
    epochs = of((3, 10))
    epochs.truncate_from_start(4)
    assert epochs.entries() == [(3, 10)]


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 100)), max_size=20))
def test_the_file_reads_back(steps: list[tuple[int, int]]) -> None:
    epochs, epoch, start = LeaderEpochCache(), -1, -1
    for epoch_step, start_step in steps:
        epoch, start = epoch + epoch_step, start + start_step
        epochs.assign(epoch, start)
    again = decode_epochs(encode_epochs(epochs))
    assert again.entries() == epochs.entries()
    assert not again.changed


@for_each(
    "data",
    [
        b"",
        b"1\n0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\nx 0\n",
        b"0\n2\n1 0\n0 5\n",
        b"0\n2\n0 5\n1 5\n",
        b"0\n1\n0 -1\n",
        b"\xff",
    ],
)
def test_a_damaged_file_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        decode_epochs(data)
