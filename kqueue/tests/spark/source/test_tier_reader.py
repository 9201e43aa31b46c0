from __future__ import annotations

import random
from pathlib import Path

import pytest

from kqueue.base.errors import CorruptBatch
from kqueue.base.names import uuid_text
from kqueue.client.topic_partition import TopicPartition
from kqueue.records.arrow.decoder import ColumnDecoder
from kqueue.spark.errors import DataLost, OptionError
from kqueue.spark.source.file_reader import FileReader
from kqueue.spark.source.options import SourceOptions, TopicSelection
from kqueue.spark.source.split_planner import OffsetRange
from kqueue.spark.source.tier_reader import LOOK_AGE_S, RecentValues, TierRecordReader
from kqueue.storage import LocalStorage
from kqueue.tests.log_tools.logs import ABORT, COMMIT, append, end_transaction, flush, open_log
from kqueue.tests.spark.source.logs import options, positions, rows
from kqueue.tests.spark.source.tiers import T0, TOPIC_ID, copy_log, make_tier
from kqueue.tier.formats.topic_record import TopicRecord, encode_topic_record, topic_record_key
from kqueue.tier.lineage import Lineage
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.folder import FolderTierStore

PARTITION = TopicPartition("t", 0)
ID = uuid_text(TOPIC_ID)


def fill(storage: LocalStorage, seed: int = 0, count: int = 60) -> None:
    """Append transactions of three producers, woven into each other over many segments."""
    rng, log = random.Random(seed), open_log(storage, segment_bytes=400, index_interval_bytes=150)
    sequences, begun = {1: 0, 2: 0, 3: 0}, set[int]()
    for number in range(count):
        producer = rng.choice((1, 2, 3))
        if rng.random() < 0.15:
            append(log, b"of nobody", time_ms=1_000 * number)
        elif producer in begun and rng.random() < 0.4:
            end_transaction(log, rng.choice((ABORT, COMMIT)), producer, time_ms=0)
            begun.discard(producer)
        else:
            append(
                log,
                b"a%d" % number,
                b"b" * number,
                time_ms=1_000 * number,
                producer_id=producer,
                epoch=0,
                base_sequence=sequences[producer],
                transactional=True,
            )
            sequences[producer] += 2
            begun.add(producer)
    for producer in begun:
        end_transaction(log, ABORT, producer, time_ms=0)
    append(log, b"the last", time_ms=0)
    log.roll()
    flush(log)
    log.close()


class Tiered:
    """A log in a folder, and in a tier, which has all of it."""

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder = folder / "data"
        self.tier = folder / "tier"
        storage = LocalStorage(self.folder)
        fill(storage, seed)
        self.store: FolderTierStore = make_tier(self.tier)
        self.segments = copy_log(self.store, storage)
        self.end = self.segments[-1].end_offset

    def files(self, **given: object) -> SourceOptions:
        return options(path=self.folder, includeActiveSegment="true", **given)

    def options(self, **given: object) -> SourceOptions:
        return options(path=self.tier, **given)

    def manifest(self) -> Manifest:
        return Manifest.open(self.store, T0)


@pytest.fixture(scope="module")
def tiered(tmp_path_factory: pytest.TempPathFactory) -> Tiered:
    return Tiered(tmp_path_factory.mktemp("tiered"))


@pytest.fixture
def own(tmp_path: Path) -> Tiered:
    """One that the test changes."""
    return Tiered(tmp_path)


def test_partitions_are_found_by_names_and_patterns(tiered: Tiered) -> None:
    reader = TierRecordReader(tiered.options())
    assert reader.find_partitions(TopicSelection(), strict=True) == [PARTITION]
    assert reader.find_partitions(TopicSelection(pattern="^t$"), strict=True) == [PARTITION]
    assert reader.find_partitions(TopicSelection(pattern="u"), strict=True) == []
    assert reader.find_partitions(TopicSelection(names=("t", "gone")), strict=False) == [PARTITION]
    assert reader.find_partitions(TopicSelection(assigned=(PARTITION, TopicPartition("t", 1))), strict=False) == [
        PARTITION
    ]
    with pytest.raises(OptionError, match="there is no topic 'tt' in file://.*; did you mean 't'"):
        reader.find_partitions(TopicSelection(names=("tt",)), strict=True)
    with pytest.raises(OptionError, match="has no partition t-1"):
        reader.find_partitions(TopicSelection(assigned=(TopicPartition("t", 1),)), strict=True)
    assert reader.topic_ids(["t", "gone"]) == {"t": ID}
    reader.close()


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("seed", range(3))
def test_the_tier_reads_as_the_folder_does(tmp_path: Path, isolation: str, seed: int) -> None:
    tiered = Tiered(tmp_path, seed)
    given = {"kafka__isolation__level": isolation}
    reader = TierRecordReader(tiered.options(**given))
    assert reader.earliest([PARTITION]) == {PARTITION: 0}
    assert reader.latest([PARTITION]) == {PARTITION: tiered.end}
    reader.close()
    expected = rows(tiered.files(**given), [OffsetRange("t", 0, 0, tiered.end)])
    assert rows(tiered.options(**given), [OffsetRange("t", 0, 0, tiered.end)]) == expected
    rng = random.Random(seed)
    cuts = sorted(rng.sample(range(1, tiered.end), 5))
    pieces = [OffsetRange("t", 0, *bounds, ID) for bounds in zip([0, *cuts], [*cuts, tiered.end], strict=True)]
    assert rows(tiered.options(**given), pieces) == expected


def test_committed_readers_stop_at_the_last_stable_offset(tmp_path: Path) -> None:
    storage, store = LocalStorage(tmp_path / "data"), make_tier(tmp_path / "tier")
    log = open_log(storage)
    append(log, b"1")
    append(log, b"2", producer_id=1, epoch=0, base_sequence=0, transactional=True)
    append(log, b"3")
    log.roll()
    end_transaction(log, ABORT, 1)
    flush(log)
    log.close()
    copy_log(store, storage)
    for isolation, end in (("read_uncommitted", 3), ("read_committed", 1)):
        reader = TierRecordReader(options(path=tmp_path / "tier", kafka__isolation__level=isolation))
        assert reader.latest([PARTITION]) == {PARTITION: end}
        reader.close()


def test_committed_readers_stop_before_a_segment_that_was_cut(own: Tiered) -> None:
    newest, before = own.segments[-1], own.segments[-2]
    lineage = Lineage([(0, 0), (9, newest.end_offset - 1)], 9, newest.end_offset - 1)
    own.manifest().claim(9, lineage)
    assert own.manifest().end_offset == newest.end_offset - 1
    reader = TierRecordReader(own.options(kafka__isolation__level="read_committed"))
    assert reader.latest([PARTITION]) == {PARTITION: min(before.end_offset, before.unstable_offset)}
    reader.close()


def test_partitions_without_segments_are_those_of_the_topics_record(own: Tiered) -> None:
    body = encode_topic_record(TopicRecord("t", TOPIC_ID, 2))
    own.store.put(topic_record_key("t", TOPIC_ID), (body,), len(body))
    reader = TierRecordReader(own.options())
    both = [PARTITION, TopicPartition("t", 1)]
    assert reader.find_partitions(TopicSelection(names=("t",)), strict=True) == both
    assert reader.earliest(both) == {PARTITION: 0, both[1]: 0}
    assert reader.latest(both) == {PARTITION: own.end, both[1]: 0}
    reader.close()
    body = encode_topic_record(TopicRecord("t", TOPIC_ID, 2, deleted_ms=1))
    own.store.put(topic_record_key("t", TOPIC_ID), (body,), len(body))
    reader = TierRecordReader(own.options())
    assert reader.find_partitions(TopicSelection(), strict=False) == []
    reader.close()


def test_offsets_for_times_are_those_of_the_folder(tiered: Tiered) -> None:
    in_files, in_tier = FileReader(tiered.files()), TierRecordReader(tiered.options())
    for time in range(0, 70_000, 700):
        assert in_tier.offsets_for_times({PARTITION: time}) == in_files.offsets_for_times({PARTITION: time})
    assert in_tier.offsets_for_times({PARTITION: 10**15}) == {PARTITION: None}
    in_tier.close()


def test_an_end_is_never_below_what_was_read_from_brokers_before(tiered: Tiered) -> None:
    reader = TierRecordReader(tiered.options())
    assert reader.latest([PARTITION], {PARTITION: tiered.end + 7}) == {PARTITION: tiered.end + 7}
    reader.close()


def test_ranges_are_divided_at_segments(tiered: Tiered) -> None:
    reader = TierRecordReader(tiered.options())
    whole = OffsetRange("t", 0, 3, tiered.end - 1)
    pieces = reader.divide([whole], 1)
    borders = [one.end_offset for one in tiered.segments if 3 < one.end_offset < tiered.end - 1]
    assert [one.end for one in pieces] == [*borders, tiered.end - 1]
    assert [one.start for one in pieces] == [3, *borders]
    assert reader.divide([whole], 10**9) == [whole._replace(is_tiered=True)]
    two = reader.divide([whole], tiered.segments[0].size + 1)
    assert two[0].end == tiered.segments[1].end_offset
    assert 10 < reader.row_bytes(PARTITION, 0) < 200
    reader.close()


def test_deleted_segments_are_reported_or_skipped(own: Tiered) -> None:
    manifest, start = own.manifest(), own.segments[2].start_offset
    manifest.raise_start(0, start + 1)
    assert manifest.delete_below_start(0) == 2
    whole = OffsetRange("t", 0, 0, own.end)
    with pytest.raises(DataLost, match=f"^t-0: offsets 0 to {start} were deleted before they were read"):
        rows(own.options(), [whole])
    read = positions(own.options(failOnDataLoss="false"), [whole])
    assert read == positions(own.files(), [whole._replace(start=start + 1)])
    reader = TierRecordReader(own.options())
    assert reader.earliest([PARTITION]) == {PARTITION: start + 1}
    reader.close()


def test_segments_deleted_while_a_task_reads_are_reported(own: Tiered) -> None:
    reader = TierRecordReader(own.options())
    planned = reader.divide([OffsetRange("t", 0, 0, own.end, ID)], 1)
    read: list[str] = []
    assert reader.earliest([PARTITION]) == {PARTITION: 0}  # the manifest is known
    manifest = own.manifest()
    manifest.raise_start(0, own.segments[1].end_offset)
    manifest.delete_below_start(0)
    decoder = ColumnDecoder(engine="python")
    assert list(reader.read(planned, decoder, read.append)) == []
    ends = [segment.end_offset for segment in own.segments[:2]]
    assert read == [
        f"t-0: offsets 0 to {ends[0] - 1} were deleted before they were read",
        f"t-0: offsets {ends[0]} to {ends[1] - 1} were deleted before they were read",
    ]
    assert sum(chunk.rows for chunk in decoder.finish()) > 0
    reader.close()


def test_a_partition_that_is_gone_is_reported(own: Tiered) -> None:
    own.store.delete([T0.manifest_key])
    with pytest.raises(DataLost, match="^t-0 from 0 to 9 was to be read, but file://.* has it up to 0 now"):
        rows(own.options(), [OffsetRange("t", 0, 0, 9, ID)])
    other = OffsetRange("t", 0, 0, 9, "A" * 22)
    own.manifest().claim(1, None)
    with pytest.raises(DataLost, match="^t-0 from 0 to 9 was to be read, but topic 't' was deleted and recreated"):
        rows(own.options(), [other])
    assert rows(own.options(failOnDataLoss="false"), [other]) == []


def test_a_damaged_object_is_an_error_that_names_it(own: Tiered) -> None:
    key = own.segments[1].key(T0)
    size = own.segments[1].size + sum(own.segments[1].indexes)
    data = bytearray(own.store.get_range(key, 0, size))
    data[70] ^= 1
    own.store.put(key, (bytes(data),), len(data))
    with pytest.raises(CorruptBatch, match=own.segments[1].object_id):
        rows(own.options(failOnDataLoss="false"), [OffsetRange("t", 0, 0, own.end)])


def test_values_are_loaded_again_when_they_are_old() -> None:
    now, loaded = [0.0], list[str]()

    def load(key: str) -> int:
        loaded.append(key)
        return len(loaded)

    values = RecentValues(load, lambda: now[0])
    assert (values.get("a"), values.get("a"), values.load("a"), values.get("a")) == (1, 1, 2, 2)
    now[0] = LOOK_AGE_S
    assert values.get("a") == 3
