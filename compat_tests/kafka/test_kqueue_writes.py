"""S3.6: kqueue writes, Kafka's own tool reads: batches valid, records the same, indexes sane and in
agreement with the log.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests.kafka import clients, dumping, folders
from compat_tests.kafka.clients import CODECS, START_MS, Row, sample
from compat_tests.kafka.serving import on_partition, serving
from kqueue.broker.replicas.partition import Partition
from kqueue.records.batch import ABORT, COMMIT, control_key_value, read_header
from kqueue.records.builder import BatchBuilder
from kqueue.tests import golden

CODEC_TOPICS = [f"codec-{codec}" for codec in CODECS]
OTHER_TOPICS = ["append-time", "many-segments", "long-index", "txn"]
TOPICS = CODEC_TOPICS + OTHER_TOPICS
OLD_TOPICS = [f"v{magic}-{codec}" for magic in (0, 1) for codec in ("none", "gzip", "snappy", "lz4")]
LONG_INDEX = 3_000
CRC_POSITION = 17
Printed = dict[Path, list[str]]


def append(partition: Partition, batch: bytearray, *, client: bool = True) -> int:
    """Append a batch; returns the offset of its first record."""
    return partition.append(memoryview(batch), read_header(batch), client=client).base_offset


def transaction(
    partition: Partition, producer_id: int, sequence: int, values: list[bytes], kind: int | None, codec: str = "none"
) -> None:
    """The batch of a transaction, and its end marker; None: it stays open."""
    builder = BatchBuilder(codec, producer_id=producer_id, epoch=3, base_sequence=sequence, transactional=True)
    for number, value in enumerate(values):
        builder.append(START_MS + number, b"key", value)
    append(partition, builder.build())
    if kind is not None:
        end(partition, producer_id, kind)


def end(partition: Partition, producer_id: int, kind: int) -> None:
    """The marker that a transaction coordinator writes."""
    marker = BatchBuilder(producer_id=producer_id, epoch=3, transactional=True, control=True)
    marker.append(START_MS, *control_key_value(kind, 7))
    append(partition, marker.build(), client=False)


def write_transactions(partition: Partition) -> None:
    """Write committed, aborted, overlapping and open transactions over several segments."""
    for number in range(12):
        values = [b"%d of %d" % (one, number) for one in range(40)]
        transaction(
            partition, 100, number * 40, values, ABORT if number % 3 == 1 else COMMIT, CODECS[number % len(CODECS)]
        )
    transaction(partition, 101, 0, [b"overlaps"], None)
    transaction(partition, 102, 0, [b"is aborted"], None)
    end(partition, 101, COMMIT)
    end(partition, 102, ABORT)
    transaction(partition, 103, 0, [b"stays open"], None)


def write_long_index(partition: Partition) -> None:
    for number in range(LONG_INDEX):
        builder = BatchBuilder()
        builder.append(START_MS + number, b"%d" % number, b"x" * (number % 50))
        append(partition, builder.build())


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder that kqueue has written and left."""
    folder = tmp_path_factory.mktemp("kqueue") / "data"
    with serving(folder) as broker:
        for codec in CODECS:
            broker.create_topic(f"codec-{codec}", index_interval_bytes=500)
            clients.write(broker.bootstrap, f"codec-{codec}", sample(codec, 300), codec)
        broker.create_topic("append-time", message_timestamp_type="LogAppendTime", index_interval_bytes=100)
        for codec in CODECS:
            clients.write(broker.bootstrap, "append-time", sample(codec, 40), codec)
        broker.create_topic("many-segments", segment_bytes=2_000, index_interval_bytes=200)
        clients.write_with_kafka_python(broker.bootstrap, "many-segments", sample("segment", 1_000), "lz4")
        broker.create_topic("long-index", index_interval_bytes=1)
        on_partition(broker, "long-index", 0, write_long_index)
        broker.create_topic("txn", segment_bytes=4_000, index_interval_bytes=200)
        on_partition(broker, "txn", 0, write_transactions)
    return folder


@pytest.fixture(scope="module")
def printed(data: Path) -> Printed:
    """What the tool prints of every log, snapshot and transaction index."""
    dump = dumping.dump(files_of(data, TOPICS, ".log", ".snapshot", ".txnindex"), *dumping.PRINT)
    assert dump.complaints == []
    return dump.lines


def files_of(data: Path, topics: list[str], *suffixes: str) -> list[Path]:
    return [file for topic in topics for file in folders.files(data / f"{topic}-0", *suffixes)]


@pytest.mark.parametrize("topic", TOPICS)
def test_kafka_finds_every_batch_valid(data: Path, printed: Printed, topic: str) -> None:
    """S3.3, S7.2: offsets, positions, sizes, codecs and checksums as they stand in the file."""
    logs = files_of(data, [topic], ".log")
    assert logs
    for file in logs:
        dumping.check_log(file, printed[file])


@pytest.mark.parametrize("topic", [topic for topic in TOPICS if topic != "long-index"])
def test_kafka_reads_the_records_that_kqueue_reads(data: Path, printed: Printed, topic: str, tmp_path: Path) -> None:
    """S3.3: offset, time, key and value of every record."""
    log = folders.open_log(folders.copy(data / f"{topic}-0", tmp_path / f"{topic}-0"))
    rows = [row for header, batch in folders.units(log) for row in batch if header is None or not header.is_control]
    log.close()
    lines = [line for file in files_of(data, [topic], ".log") for line in printed[file] if "endTxnMarker" not in line]
    heads = dumping.records(lines)
    assert [int(one["offset"]) for one in heads] == [row.offset for row in rows]
    assert [int(one.get("CreateTime", one.get("LogAppendTime", "0"))) for one in heads] == [
        row.timestamp for row in rows
    ]
    assert dumping.payloads(lines) == [(_text(row.key), _text(row.value)) for row in rows]


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()


def test_indexes_pass_kafkas_checks(data: Path) -> None:
    """S3.4, S7.2: alone, and against the log."""
    files = files_of(data, TOPICS, ".index", ".timeindex")
    assert len([file for file in files if file.stat().st_size]) > 20
    dumping.check_sane(files)
    assert dumping.dump(files, *dumping.VERIFY).complaints == []


@pytest.mark.parametrize("options", [(), dumping.PRINT, dumping.SANITY, dumping.VERIFY], ids=" ".join)
def test_kqueues_own_dump_says_the_same(data: Path, options: tuple[str, ...]) -> None:
    """S7.2: line for line, of every file."""
    suffixes = (*folders.SEGMENT_SUFFIXES, ".snapshot") if options in ((), dumping.PRINT) else (".index", ".timeindex")
    files = files_of(data, TOPICS, *suffixes)
    assert dumping.dump_with_kqueue(files, *options) == dumping.dump(files, *options).lines


def test_a_long_index_holds_every_batch(data: Path) -> None:
    """S3.4: an entry for each batch but the first."""
    (file,) = files_of(data, ["long-index"], ".index")
    lines = dumping.dump([file]).lines[file]
    assert len([line for line in lines if line.startswith("offset: ")]) == LONG_INDEX - 1


def test_small_segments_follow_each_other(data: Path, printed: Printed) -> None:
    """S3.2, S3.5: each file is named by its first offset, and begins where the one before ends."""
    expected = 0
    logs = files_of(data, ["many-segments"], ".log")
    assert len(logs) > 10
    for file in logs:
        assert int(file.stem) == expected
        assert f"Log starting offset: {expected}" in printed[file]
        if batches := dumping.batches(printed[file]):
            expected = batches[-1].last_offset + 1
    assert expected == 1_000


def test_kafka_sees_the_transactions(data: Path, printed: Printed) -> None:
    """S3.3: markers, aborted transactions with their last stable offset, and the producers in the
    snapshot.
    """
    lines = [line for file in files_of(data, ["txn"], ".log") for line in printed[file]]
    assert sum("endTxnMarker: COMMIT coordinatorEpoch: 7" in line for line in lines) == 9
    assert sum("endTxnMarker: ABORT coordinatorEpoch: 7" in line for line in lines) == 5
    aborted = [line for file in files_of(data, ["txn"], ".txnindex") for line in printed[file] if line]
    assert len(aborted) == 5
    assert aborted[0] == "version: 0 producerId: 100 firstOffset: 41 lastOffset: 81 lastStableOffset: 82"
    # the one that overlaps was still open when this one began, not when it ended
    assert aborted[-1] == "version: 0 producerId: 102 firstOffset: 493 lastOffset: 495 lastStableOffset: 496"
    snapshot = printed[files_of(data, ["txn"], ".snapshot")[-1]]
    open_one = next(line for line in snapshot if line.startswith("producerId: 103 "))
    assert "producerEpoch: 3 " in open_one
    assert "currentTxnFirstOffset: OptionalLong[496]" in open_one


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, list[Row]]]]:
    """Kafka 2.8's folder, appended to by kqueue, and what a client then read."""
    folder = golden.copy_folder("2.8", tmp_path_factory.mktemp("old"))
    with serving(folder, node_id=0) as broker:
        for topic in OLD_TOPICS:
            clients.write(broker.bootstrap, topic, sample(topic, 60), "gzip")
        rows = clients.read(broker.bootstrap, OLD_TOPICS)
    yield folder, rows
    shutil.rmtree(folder)


def test_old_formats_are_carried_on(old: tuple[Path, dict[str, list[Row]]]) -> None:
    """S3.3: messages of magic 0 and 1, plain and in wrappers, with batches of magic 2 behind them;
    the tool finds all valid.
    """
    folder, rows = old
    printed, complaints = dumping.dump(files_of(folder, OLD_TOPICS, ".log"), *dumping.PRINT)
    assert complaints == []
    for topic in OLD_TOPICS:
        magics = {batch.magic for file in files_of(folder, [topic], ".log") for batch in dumping.batches(printed[file])}
        assert magics == {int(topic[1]), 2}
        for file in files_of(folder, [topic], ".log"):
            dumping.check_log(file, printed[file])
        before = golden.expected("2.8")[topic].records
        assert len(rows[topic]) == len(before) + 60
        assert [tuple(row) for row in rows[topic][: len(before)]] == [tuple(record) for record in before]


def test_indexes_of_old_formats_pass_kafkas_checks(old: tuple[Path, dict[str, list[Row]]], tmp_path: Path) -> None:
    """S3.4, S7.2: kqueue's entries agree with the log.

    Kafka 2.8's own don't where messages of old formats are not in wrappers: it gives the position
    where an append began, and the last offset of the append, not of the first message. So nothing
    may be wrong but what was wrong before.
    """
    files = files_of(old[0], OLD_TOPICS, ".index", ".timeindex")
    dumping.check_sane(files)
    before = golden.copy_folder("2.8", tmp_path)
    kafkas = dumping.dump(files_of(before, OLD_TOPICS, ".index", ".timeindex"), *dumping.VERIFY).complaints
    assert sorted(dumping.dump(files, *dumping.VERIFY).complaints) == sorted(
        line.replace(str(before), str(old[0])) for line in kafkas
    )


def test_the_tool_notices_damage(data: Path, tmp_path: Path) -> None:
    """Or else the tests above would prove nothing: a batch changed, an index entry moved."""
    folder = folders.copy(data / "codec-none-0", tmp_path / "codec-none-0")
    (log,), (index,) = folders.files(folder, ".log"), folders.files(folder, ".index")
    raw = bytearray(log.read_bytes())
    raw[CRC_POSITION] ^= 1
    log.write_bytes(raw)
    first, *others = dumping.batches(dumping.dump([log], *dumping.PRINT).lines[log])
    assert not first.is_valid
    assert all(batch.is_valid for batch in others)
    entries = bytearray(index.read_bytes())
    entries[3] ^= 1
    index.write_bytes(entries)
    assert f"Mismatches in :{index}" in dumping.dump([index], *dumping.VERIFY).complaints
