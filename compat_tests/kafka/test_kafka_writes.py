"""S3.6: Kafka writes, kqueue reads: every record, watermark, offset by time and committed offset is
what a client read from Kafka.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import kqueue
from compat_tests.kafka import clients, dumping, folders
from compat_tests.kafka.clients import CODECS, START_MS, Row, Sent, Writer, sample
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import serving
from compat_tests.waits import eventually

SEEN_TIMES = [0, START_MS, START_MS + 7_500, START_MS + 60_000, START_MS + 10**9]
GROUP = "readers"
CODEC_TOPICS = [f"{kind}-{codec}" for kind in ("confluent", "kafka-python") for codec in CODECS]
OTHER_TOPICS = [
    "append-time",
    "three",
    "many-segments",
    "full-index",
    "trimmed",
    "compacted",
    "txn",
    "txn-compacted",
    "txn-open",
    "empty",
]
TOPICS = CODEC_TOPICS + OTHER_TOPICS
TRANSACTIONAL = {"txn", "txn-compacted", "txn-open"}
CLEANER = {
    "cleanup_policy": "compact",
    "min_cleanable_dirty_ratio": "0.01",
    "min_compaction_lag_ms": 0,
    "delete_retention_ms": 0,
}


@dataclass
class Seen:
    """What clients find at a broker, by topic: the records in both views, first and last offsets,
    offsets by time.
    """

    rows: dict[str, list[Row]]
    committed_rows: dict[str, list[Row]]
    watermarks: dict[str, dict[int, tuple[int, int]]]
    times: dict[str, dict[tuple[int, int], int]]
    groups: dict[tuple[str, int], int]


@dataclass
class Written:
    """A stopped Kafka's folder, and what clients read from it before."""

    data: Path
    seen: Seen


def look(bootstrap: str) -> Seen:
    places = [("confluent-zstd", 0), *(("three", partition) for partition in range(3))]
    return Seen(
        clients.read(bootstrap, TOPICS),
        clients.read(bootstrap, TOPICS, committed=True),
        clients.watermarks(bootstrap, TOPICS),
        clients.offsets_for_times(bootstrap, TOPICS, SEEN_TIMES),
        clients.committed(bootstrap, GROUP, places),
    )


def write_codecs(bootstrap: str) -> None:
    for codec in CODECS:
        clients.create_topic(bootstrap, f"confluent-{codec}")
        clients.write(bootstrap, f"confluent-{codec}", sample(codec, 100), codec)
        clients.create_topic(bootstrap, f"kafka-python-{codec}")
        clients.write_with_kafka_python(bootstrap, f"kafka-python-{codec}", sample(codec, 100), codec)


def write_segments(bootstrap: str) -> None:
    clients.create_topic(bootstrap, "append-time", message_timestamp_type="LogAppendTime")
    for codec in CODECS:
        clients.write(bootstrap, "append-time", sample("append", 30), codec)
    clients.create_topic(bootstrap, "three", 3)
    clients.write(bootstrap, "three", sample("three", 300, partitions=3), "lz4", **{"enable.idempotence": True})
    # the times of the records lie a second apart: they end a segment after a batch or two
    clients.create_topic(bootstrap, "many-segments", segment_ms=5_000)
    clients.write(bootstrap, "many-segments", sample("segment", 400), "zstd", batch_records=10)
    clients.create_topic(bootstrap, "full-index", segment_index_bytes=32, index_interval_bytes=100)
    clients.write(bootstrap, "full-index", sample("index", 400), "none", batch_records=10)
    clients.create_topic(bootstrap, "trimmed", segment_ms=5_000)
    clients.write(bootstrap, "trimmed", sample("trimmed", 200), "snappy", batch_records=10)
    clients.delete_records(bootstrap, "trimmed", 0, 77)
    clients.create_topic(bootstrap, "empty", 2)


def write_compacted(bootstrap: str) -> None:
    """Keys that come again and again, tombstones, and at the end a record that seals what is to be
    compacted.
    """
    clients.create_topic(bootstrap, "compacted", internal_segment_bytes=1_000, **CLEANER)
    updates = [
        Sent(None if number % 17 == 4 else b"%d" % number, b"key-%d" % (number % 40), (), 0, START_MS + number * 500)
        for number in range(600)
    ]
    clients.write(bootstrap, "compacted", updates, "gzip", batch_records=15)


def write_transactions(bootstrap: str) -> None:
    clients.create_topic(bootstrap, "txn", 2)
    clients.create_topic(bootstrap, "txn-compacted", internal_segment_bytes=300, **CLEANER)
    writer = Writer(bootstrap, "lz4", **{"transactional.id": "writer"}).init()
    for number in range(8):
        records = sample(f"txn {number}", 20, partitions=2, start=number * 20)
        writer.transaction("txn", records, commit=number % 3 != 1)
        keyed = [Sent(b"%d" % number, b"key-%d" % key, (), 0, START_MS + number * 2_000) for key in range(5)]
        writer.transaction("txn-compacted", keyed, commit=number % 2 == 0)
    clients.create_topic(bootstrap, "txn-open")
    clients.write(bootstrap, "txn-open", sample("before", 5))
    opened = Writer(bootstrap, **{"transactional.id": "never ends"}).init()
    opened.begin()
    opened.write("txn-open", sample("open", 5))
    clients.write(bootstrap, "txn-open", sample("after", 5))


def wait_until_dropped(folder: Path, name: str) -> None:
    """Wait until Kafka deletes a file whose records are all below the log start."""
    eventually(lambda: not (folder / name).exists(), f"the deletion of {folder / name}")


@pytest.fixture(scope="module")
def written(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Written:
    node = Kafka(tmp_path_factory.mktemp("written")).copy_from(formatted)
    with node:
        write_codecs(node.bootstrap)
        write_segments(node.bootstrap)
        write_compacted(node.bootstrap)
        write_transactions(node.bootstrap)
        clients.consume_in_group(node.bootstrap, GROUP, "confluent-zstd", 42)
        clients.commit(node.bootstrap, GROUP, {("three", 0): 11, ("three", 2): 33})
        folders.wait_until_cleaned(node.data, "compacted", 500)
        folders.wait_until_cleaned(node.data, "txn-compacted", 30)
        wait_until_dropped(node.partition("trimmed"), f"{0:020d}.log")
        seen = look(node.bootstrap)
    return Written(node.data, seen)


@pytest.fixture(scope="module")
def taken_over(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """kqueue on a copy of Kafka's folder: where clients connect."""
    with serving(folders.copy(written.data, tmp_path_factory.mktemp("taken") / "data")) as broker:
        yield broker.bootstrap


@pytest.fixture(scope="module")
def seen(taken_over: str) -> Seen:
    """What clients find at kqueue."""
    return look(taken_over)


def test_kafka_wrote_what_the_tests_are_about(written: Written) -> None:
    """S3.2, S5.2: or else the comparisons below would prove nothing."""
    kafkas = written.seen
    assert all(len(kafkas.rows[topic]) == 100 for topic in CODEC_TOPICS)
    assert len(folders.files(written.data / "many-segments-0", ".log")) > 20
    assert len(folders.files(written.data / "full-index-0", ".log")) > 5
    assert kafkas.watermarks["trimmed"][0] == (77, 200)
    assert 40 <= len(kafkas.rows["compacted"]) < 200
    assert folders.files(written.data / "txn-0", ".txnindex")
    assert len(kafkas.committed_rows["txn"]) < len(kafkas.rows["txn"])
    assert len(kafkas.committed_rows["txn-open"]) == 5
    assert len(kafkas.groups) == 3


@pytest.mark.parametrize("topic", TOPICS)
def test_clients_read_the_same_from_kqueue(written: Written, seen: Seen, topic: str) -> None:
    """S3.3, S3.6, S4.1: every record, in both views."""
    assert seen.rows[topic] == written.seen.rows[topic]
    assert seen.committed_rows[topic] == written.seen.committed_rows[topic]


@pytest.mark.parametrize("topic", TOPICS)
def test_watermarks_and_offsets_by_time_are_kafkas(written: Written, seen: Seen, topic: str) -> None:
    """S4.2, S5.1: the log start that DeleteRecords set, too."""
    assert seen.watermarks[topic] == written.seen.watermarks[topic]
    kafkas = written.seen.times[topic]
    if "compacted" in topic:
        # Kafka gives up in the first segment that once held such a time, though the record went;
        # kqueue looks on
        kafkas = {asked: seen.times[topic][asked] if offset == -1 else offset for asked, offset in kafkas.items()}
    assert seen.times[topic] == kafkas


def test_groups_go_on_where_they_were(written: Written, seen: Seen, taken_over: str) -> None:
    """S4.5: offsets committed by a group with members and by one without; the group goes on with
    the next record.
    """
    assert seen.groups == written.seen.groups
    taken = clients.consume_in_group(taken_over, GROUP, "confluent-zstd", 10)
    first = written.seen.groups["confluent-zstd", 0]
    assert taken[:10] == [row.value for row in written.seen.rows["confluent-zstd"][first : first + 10]]


@pytest.mark.parametrize("clean", [True, False], ids=["clean", "recovered"])
@pytest.mark.parametrize("topic", TOPICS)
def test_the_engine_reads_the_same(written: Written, tmp_path: Path, topic: str, clean: bool) -> None:
    """S3.6, S5.3: without a broker; also with every log recovered and its
    indexes rebuilt.
    """
    policy = {"cleanup_policy": "compact"} if "compacted" in topic else {}
    for partition, (start, _) in written.seen.watermarks[topic].items():
        folder = folders.copy(written.data / f"{topic}-{partition}", tmp_path / f"{topic}-{partition}")
        for committed, expected in ((False, written.seen.rows), (True, written.seen.committed_rows)):
            rows = folders.read(folder, committed=committed, clean=clean, start_offset=start, **policy)
            assert rows == [row for row in expected[topic] if row.partition == partition]


@pytest.mark.parametrize("topic", TOPICS)
def test_an_opened_log_holds_the_same(written: Written, topic: str) -> None:
    """S3.6: `kqueue.open_log` on Kafka's folder as it is, which it leaves as it was."""
    before = folders.contents(written.data)
    for isolation, expected in (
        ("read_uncommitted", written.seen.rows),
        ("read_committed", written.seen.committed_rows),
    ):
        for partition in written.seen.watermarks[topic]:
            log = kqueue.open_log(written.data / f"{topic}-{partition}")
            records = [tuple(record[:5]) for record in log.records(isolation=isolation)]
            rows = [row for row in expected[topic] if row.partition == partition]
            assert records == [(row.offset, row.timestamp, row.key, row.value, row.headers) for row in rows]
            low, high = written.seen.watermarks[topic][partition]
            assert log.start_offset == low
            # clients are told the last stable offset, which an open transaction holds back
            assert log.end_offset == high + (10 if topic == "txn-open" else 0)
    assert folders.contents(written.data) == before


@pytest.mark.parametrize(
    ("topics", "options"),
    [
        (TOPICS, ()),
        (TOPICS, dumping.PRINT),
        (["__consumer_offsets"], ("--offsets-decoder",)),
        (["__transaction_state"], ("--transaction-log-decoder",)),
    ],
    ids=["batches", "records", "offsets", "transactions"],
)
def test_kqueue_dumps_kafkas_files_as_kafka_does(written: Written, topics: list[str], options: tuple[str, ...]) -> None:
    """S7.2: line for line, of every file."""
    parts = [
        folder
        for folder in sorted(written.data.iterdir())
        if folder.is_dir() and folder.name.rpartition("-")[0] in topics
    ]
    suffixes = (".log",) if topics != TOPICS else (*folders.SEGMENT_SUFFIXES, ".snapshot")
    files = [file for folder in parts for file in folders.files(folder, *suffixes)]
    dumped = dumping.dump_with_kqueue(files, *options)
    for file, lines in dumping.dump(files, *options).lines.items():
        assert dumped[file] == lines
