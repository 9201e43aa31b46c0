"""Logs of several brokers, compared: what must be equal is, and every difference is found."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.config import LogConfig
from kqueue.log.follower_log import append_replicated
from kqueue.log.formats.checkpoints import CLEANER_OFFSETS, HIGH_WATERMARKS, encode_offsets
from kqueue.log.log import Log
from kqueue.log.manager import LogManager
from kqueue.log_tools.comparison import PartitionComparison, compare
from kqueue.log_tools.errors import NotALogFolder
from kqueue.records.batch import ABORT, COMMIT
from kqueue.records.builder import BatchBuilder
from kqueue.storage import LocalStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.log.helpers import START_MS, append, end_transaction, flush
from kqueue.tests.log_tools.damage import flip

KEY = ("t", 0)
ID = bytes(15) + b"\x01"
Fill = Callable[[Log], object]


def broker(
    folder: Path, fill: Fill, *, high_watermark: int | None = None, compacted: bool = False, topic_id: bytes = ID
) -> Path:
    """The data folder of a stopped broker; `high_watermark` None: the end of the log."""
    logs = LogManager([LocalStorage(folder)], clock=ManualClock(START_MS), rng=random.Random(1))
    log = logs.open(*KEY, topic_id, LogConfig.of(segment_bytes=400))
    fill(log)
    flush(log)
    end = log.end_offset
    logs.close()
    checkpoint = end if high_watermark is None else high_watermark
    (folder / HIGH_WATERMARKS).write_bytes(encode_offsets({KEY: checkpoint}))
    if compacted:
        (folder / CLEANER_OFFSETS).write_bytes(encode_offsets({KEY: end}))
    return folder


def batches(*epochs: int, salt: bytes = b"") -> Fill:
    """One batch of two records for each leader epoch; `salt` is in the last one."""

    def fill(log: Log) -> None:
        for number, epoch in enumerate(epochs):
            extra = salt if number == len(epochs) - 1 else b""
            append(log, b"%d-%d" % (number, epoch), b"more" + extra, leader_epoch=epoch)

    return fill


def only(*folders: Path) -> PartitionComparison:
    (partition,) = compare(folders).partitions
    return partition


def test_equal_logs(tmp_path: Path) -> None:
    folders = [broker(tmp_path / str(number), batches(0, 0, 1)) for number in range(3)]
    report = compare(folders)
    (partition,) = report.partitions
    assert report.is_equal
    assert (partition.name, partition.high_watermark, partition.equal_to) == ("t-0", 6, 6)
    assert partition.ends == {str(folder): 6 for folder in folders}


def test_a_follower_behind_is_equal_as_far_as_it_goes(tmp_path: Path) -> None:
    difference = only(broker(tmp_path / "1", batches(0, 0, 1)), broker(tmp_path / "2", batches(0, 0)))
    assert (difference.difference, difference.high_watermark, difference.equal_to) == (None, 6, 4)


def test_other_leaders_may_differ_above_the_high_watermark_only(tmp_path: Path) -> None:
    ours = broker(tmp_path / "1", batches(0, 0, 1, 1))
    theirs = broker(tmp_path / "2", batches(0, 0, 2), high_watermark=4)
    assert (only(ours, theirs).difference, only(ours, theirs).equal_to) == (None, 4)
    committed = broker(tmp_path / "3", batches(0, 0, 2), high_watermark=5)
    difference = only(ours, committed)
    assert str(difference.difference) == (
        f"offset 4: a batch to offset 5 of leader epoch 1 in {ours}, "
        f"a batch to offset 5 of leader epoch 2 in {committed}"
    )
    assert not compare([ours, committed]).is_equal


def test_two_leaders_of_one_epoch_are_found_above_the_high_watermark(tmp_path: Path) -> None:
    ours = broker(tmp_path / "1", batches(0, 1), high_watermark=2)
    theirs = broker(tmp_path / "2", batches(0, 1, salt=b"?"), high_watermark=2)
    compared = only(ours, theirs)
    assert compared.difference is not None
    assert compared.difference.offset == 2
    same_size = broker(tmp_path / "3", lambda log: [append(log, b"0-0", b"more"), append(log, b"0-1", b"mOre")])
    other = broker(tmp_path / "4", lambda log: [append(log, b"0-0", b"more"), append(log, b"0-1", b"more")])
    difference = only(same_size, other).difference
    assert difference is not None
    assert difference.found == (
        "a record of offset 3 with key null and value b'mOre'",
        "a record of offset 3 with key null and value b'more'",
    )


def test_a_shorter_log_below_its_own_high_watermark_is_no_difference_but_a_lost_one_is(tmp_path: Path) -> None:
    ours = broker(tmp_path / "1", batches(0, 0, 0))
    behind = broker(tmp_path / "2", batches(0), high_watermark=6)  # an old log with a newer checkpoint
    assert only(ours, behind).difference is None
    lost = broker(tmp_path / "3", batches(0), high_watermark=2)
    assert str(only(lost, behind).difference) == (
        f"offset 2: the high watermark 6 in {behind}, the end of the longest log in {lost}"
    )


def test_deleted_records_do_not_count(tmp_path: Path) -> None:
    ours = broker(tmp_path / "1", batches(0, 0, 0, 0, 0, 0, 0, 0))
    theirs = tmp_path / "2"
    shutil.copytree(ours, theirs)
    segments = sorted((theirs / "t-0").glob("*.log"))
    assert len(segments) > 1
    for file in (theirs / "t-0").glob(f"{segments[0].stem}.*"):
        file.unlink()
    difference = only(ours, theirs)
    assert (difference.difference, difference.equal_to) == (None, 16)


def test_damage_and_other_topics_are_differences(tmp_path: Path) -> None:
    ours = broker(tmp_path / "1", batches(0, 0))
    damaged = broker(tmp_path / "2", batches(0, 0))
    flip(damaged / "t-0" / "00000000000000000000.log", 70)
    assert "damage" in str(only(ours, damaged).difference)
    other = broker(tmp_path / "3", batches(0, 0), topic_id=bytes(15) + b"\x02")
    assert "topic id" in str(only(ours, other).difference)


def test_folders_of_one_partition_and_what_is_refused(tmp_path: Path) -> None:
    ours, theirs = (broker(tmp_path / name, batches(0, 0)) for name in "12")
    (theirs / "t-0").rename(tmp_path / "copied")
    assert only(ours / "t-0", tmp_path / "copied").equal_to == 4
    with pytest.raises(ValueError, match="both"):
        compare([ours, ours / "t-0"])
    with pytest.raises(ValueError, match="two folders"):
        compare([ours])
    with pytest.raises(NotALogFolder):
        compare([ours, tmp_path / "none"])


def keyed(*records: tuple[int, bytes, bytes | None], end: int) -> Fill:
    """A log as compaction leaves it: these records at their offsets; `end`: its end."""

    def fill(log: Log) -> None:
        for offset, key, value in records:
            _append_at(log, offset, key, value)
        _append_at(log, end - 1, b"last", b"x")

    return fill


def _append_at(log: Log, offset: int, key: bytes, value: bytes | None) -> None:
    builder = BatchBuilder(base_offset=offset, leader_epoch=0)
    builder.append(START_MS, key, value)
    buf = builder.build()
    append_replicated(log, memoryview(buf), 0)


A, B = (0, b"a", b"1"), (1, b"b", b"1")


@pytest.mark.parametrize(
    ("ours", "theirs", "differs_at"),
    [
        ([A, B, (2, b"a", b"2")], [B, (2, b"a", b"2")], None),
        ([A, B, (2, b"a", None)], [B], None),  # its tombstone is deleted too
        ([A, B], [A], 1),
        ([A, B], [A, (1, b"b", b"2")], 1),
        ([(2, b"a", b"1")], [(3, b"a", b"1")], 2),
    ],
)
def test_compacted_logs_have_the_same_newest_values(
    tmp_path: Path,
    ours: list[tuple[int, bytes, bytes | None]],
    theirs: list[tuple[int, bytes, bytes | None]],
    differs_at: int | None,
) -> None:
    for name, records in (("1", ours), ("2", theirs)):
        broker(tmp_path / name, keyed(*records, end=6), compacted=True)
    difference = only(tmp_path / "1", tmp_path / "2")
    assert difference.is_compacted
    assert (difference.difference.offset if difference.difference else None) == differs_at
    assert differs_at is not None or difference.equal_to == 6


def test_open_and_aborted_transactions_of_compacted_logs(tmp_path: Path) -> None:
    def fill(log: Log) -> None:
        append(log, b"plain")
        for producer_id, kind in ((7, COMMIT), (8, ABORT), (9, None)):
            append(log, b"%d" % producer_id, producer_id=producer_id, epoch=0, base_sequence=0, transactional=True)
            if kind is not None:
                end_transaction(log, kind, producer_id)

    folders = [broker(tmp_path / name, fill, compacted=True) for name in "12"]
    difference = only(*folders)
    assert (difference.difference, difference.equal_to, difference.high_watermark) == (None, 5, 6)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=6), st.integers(0, 5), st.booleans())
def test_changed_batch_is_located(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], at: int, is_epoch: bool
) -> None:
    folder = tmp_path_factory.mktemp("compared")
    epochs = [sum(steps[: number + 1]) for number in range(len(steps))]
    at %= len(steps)

    def changed(log: Log) -> None:
        for number, epoch in enumerate(epochs):
            here = number >= at
            value = b"%d" % number if is_epoch or number != at else b"!"
            append(log, value, leader_epoch=epoch + (is_epoch and here))

    def plain(log: Log) -> None:
        for number, epoch in enumerate(epochs):
            append(log, b"%d" % number, leader_epoch=epoch)

    difference = only(broker(folder / "1", plain), broker(folder / "2", changed)).difference
    assert difference is not None
    assert difference.offset == at
