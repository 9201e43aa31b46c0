from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import CorruptBatch
from kqueue.client.topic_partition import TopicPartition
from kqueue.spark.errors import DataLost, OptionError
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.options import TopicSelection
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.tests import golden
from kqueue.tests.spark.source.logs import BEGIN_MS, options, positions, rows, send
from kqueue.tests.thorough import corners

T0 = TopicPartition("t", 0)
EVERYTHING = TopicSelection()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder after a clean stop: t-0 with 60 records in several segments, u-1 empty."""
    result = tmp_path_factory.mktemp("data")
    with kqueue.Broker(result) as broker:
        broker.create_topic("t", 1, segment_bytes=1024)
        broker.create_topic("u", 2)
        broker.create_topic("_kqueue-sink-u")
        for number in range(12):
            send(broker, "t", 0, 5, time_ms=BEGIN_MS + 100 * number, codec="gzip" if number % 2 else "none")
    return result


def at_work(folder: Path, tmp_path: Path) -> Path:
    """The same, as if its broker were running, or had died."""
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copied / ".kafka_cleanshutdown").unlink()
    return copied


def test_partitions_are_found_by_names_and_patterns(folder: Path) -> None:
    reader = FileReader(options(path=folder))
    assert reader.find_partitions(EVERYTHING, strict=True) == [T0, ("u", 0), ("u", 1)]
    assert reader.find_partitions(TopicSelection(pattern="u"), strict=True) == [("u", 0), ("u", 1)]
    assert reader.find_partitions(TopicSelection(pattern="[u]"), strict=True) == [("u", 0), ("u", 1)]
    assert reader.find_partitions(TopicSelection(pattern="t$"), strict=True) == [T0]
    assert reader.find_partitions(TopicSelection(names=("t", "gone")), strict=False) == [T0]
    assert reader.find_partitions(TopicSelection(assigned=(T0, TopicPartition("t", 9))), strict=False) == [T0]
    with pytest.raises(OptionError, match="there is no topic 'tt' in .*; did you mean 't'"):
        reader.find_partitions(TopicSelection(names=("tt",)), strict=True)
    with pytest.raises(OptionError, match="has no folder t-9"):
        reader.find_partitions(TopicSelection(assigned=(TopicPartition("t", 9),)), strict=True)
    only = FileReader(options(path=folder / "t-0"))
    assert only.find_partitions(EVERYTHING, strict=True) == [T0]


def test_paths_without_partitions_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="no folder that is there"):
        FileReader(options(path=tmp_path / "gone"))
    (tmp_path / "file").write_text("")
    with pytest.raises(OptionError, match="a file, expected a folder"):
        FileReader(options(path=tmp_path / "file"))
    with pytest.raises(OptionError, match="has no folders of partitions"):
        FileReader(options(path=tmp_path)).find_partitions(EVERYTHING, strict=True)


def test_the_last_segment_counts_after_a_clean_stop(folder: Path, tmp_path: Path) -> None:
    torn_off = at_work(folder, tmp_path)
    assert FileReader(options(path=folder)).latest([T0]) == {T0: 60}
    sealed = FileReader(options(path=torn_off)).latest([T0])[T0]
    assert 30 <= sealed < 60
    assert FileReader(options(path=torn_off, includeActiveSegment="true")).latest([T0]) == {T0: 60}
    assert FileReader(options(path=folder, includeActiveSegment="false")).latest([T0]) == {T0: sealed}
    assert FileReader(options(path=folder)).earliest([T0, TopicPartition("gone", 0)]) == {T0: 0}


def test_only_the_ranges_are_read_and_row_bytes_are_estimated(folder: Path) -> None:
    source_options = options(path=folder)
    ranges = [OffsetRange("t", 0, 3, 17), OffsetRange("t", 0, 58, 60)]
    assert positions(source_options, ranges) == [("t", 0, offset) for offset in (*range(3, 17), 58, 59)]
    reader = FileReader(source_options)
    assert 20 < reader.row_bytes(T0, 0) < 200
    assert reader.row_bytes(TopicPartition("gone", 0), 0) > 0


@pytest.mark.parametrize("has_index", [True, False])
def test_offsets_for_times_need_no_time_index(folder: Path, tmp_path: Path, has_index: bool) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    if not has_index:
        for index in (copied / "t-0").glob("*.timeindex"):
            index.unlink()
    reader = FileReader(options(path=copied))
    every = {BEGIN_MS + 100 * (offset // 5) + offset % 5: offset for offset in range(60)}
    for time, offset in every.items():
        assert reader.offsets_for_times({T0: time}) == {T0: offset}
    assert reader.offsets_for_times({T0: 0}) == {T0: 0}
    assert reader.offsets_for_times({T0: BEGIN_MS + 50}) == {T0: 5}
    assert reader.offsets_for_times({T0: BEGIN_MS + 5_000}) == {T0: None}


def test_deleted_segment_is_reported_or_skipped(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    first, second, *_ = sorted((copied / "t-0").glob("*.log"))
    first.unlink()
    begin = int(second.stem)
    with pytest.raises(DataLost, match=f"^t-0: offsets 0 to {begin - 1} were deleted before they were read"):
        rows(options(path=copied), [OffsetRange("t", 0, 0, 60)])
    result = positions(
        options(path=copied, failOnDataLoss="false"), [OffsetRange("t", 0, 0, 60), OffsetRange("gone", 0, 0, 5)]
    )
    assert result == [("t", 0, offset) for offset in range(begin, 60)]


@pytest.mark.parametrize("position", [70, 300])
def test_damage_is_named(folder: Path, tmp_path: Path, position: int) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    file = copied / "t-0" / f"{0:020d}.log"
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    file.write_bytes(data)
    words = rf"t-0/{0:020d}\.log at position [0-9]+: expected checksum .*; stop its broker, "
    words += r"and mend it with: kqueue log repair .*/t-0 "
    with pytest.raises(CorruptBatch, match=words):
        rows(options(path=copied), [OffsetRange("t", 0, 0, 60)])


def test_no_flip_changes_what_is_read(tmp_path: Path) -> None:
    """Each bit counts, or is told of; the very last batch is left out, because nothing behind it
    bears its offset out.
    """
    with kqueue.Broker(tmp_path) as broker:
        broker.create_topic("t", 1)
        for number in range(3):
            send(broker, "t", 0, 2, time_ms=BEGIN_MS + 100 * number)
    (file,) = (tmp_path / "t-0").glob("*.log")
    data = file.read_bytes()
    source_options, whole = options(path=tmp_path), [OffsetRange("t", 0, 0, 6)]
    right, missed = rows(source_options, whole), []
    for position in range(len(data) * 2 // 3):
        file.write_bytes(data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :])
        try:
            if rows(source_options, whole) != right:
                missed.append(position)
        except CorruptBatch:
            pass
    assert missed == []


def test_truncated_segment_is_reported_as_corrupt(folder: Path, tmp_path: Path) -> None:
    copied = Path(shutil.copytree(folder, tmp_path / "copy"))
    file = copied / "t-0" / f"{0:020d}.log"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(CorruptBatch, match=rf"{0:020d}\.log"):
        rows(options(path=copied), [OffsetRange("t", 0, 0, 60)])


@pytest.mark.parametrize("version", corners(golden.VERSIONS, golden.VERSIONS[-1]))
def test_aborted_transactions_of_kafka_are_hidden(version: str) -> None:
    expected = golden.expected(version)
    for isolation, name in (("read_uncommitted", "txn"), ("read_committed", "txn:committed")):
        source_options = options(path=golden.data_folder(version), subscribe="txn", kafka__isolation__level=isolation)
        reader = FileReader(source_options)
        partitions = reader.find_partitions(source_options.topics, strict=True)
        first, last = reader.earliest(partitions), reader.latest(partitions)
        wanted_positions = [(record.partition, record.offset) for record in expected[name].records]
        result = [
            topic_partition[1:]
            for topic_partition in positions(
                source_options,
                [
                    OffsetRange(*topic_partition, first[topic_partition], last[topic_partition])
                    for topic_partition in partitions
                ],
            )
        ]
        assert sorted(result) == sorted(wanted_positions)
        for topic_partition in partitions:
            # cut anywhere, and read piece by piece
            pieces = [
                OffsetRange(*topic_partition, offset, offset + 1)
                for offset in range(first[topic_partition], last[topic_partition])
            ]
            single = [one[1:] for piece in pieces for one in positions(source_options, [piece])]
            assert single == sorted(one for one in wanted_positions if one[0] == topic_partition.partition)


def test_topic_id_is_read_from_the_folder_and_checked(folder: Path) -> None:
    reader = FileReader(options(path=folder))
    ids = reader.topic_ids(["t", "gone"])
    assert list(ids) == ["t"]
    assert len(ids["t"]) == 22
    assert len(positions(options(path=folder), [OffsetRange("t", 0, 0, 60, ids["t"])])) == 60
    other = OffsetRange("t", 0, 0, 60, "another" + 15 * "A")
    with pytest.raises(DataLost, match="^t-0 from 0 to 60 was to be read, but topic 't' was deleted and recreated"):
        rows(options(path=folder), [other])
    assert rows(options(path=folder, failOnDataLoss="false"), [other]) == []
