"""S5.2, S3.6: what kqueue compacts Kafka's tools and Kafka itself take as theirs, and it is what
Kafka would have kept.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.kafka import clients, dumping, folders
from compat_tests.kafka.clients import CODECS, START_MS, Row, Sent, Writer
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import serving

RECORDS = 600
TOPICS = ("keyed", "txn")
CLEANER = {
    "log_cleaner_backoff_ms": 50,
    "log_retention_check_interval_ms": 100,  # which also opens the logs that nobody has used since the start
    "log_cleaner_min_cleanable_ratio": 0.001,
    "log_segment_bytes": 3_000,
    "log_index_interval_bytes": 100,
}
AT_ONCE = {"cleanup_policy": "compact", "min_cleanable_dirty_ratio": "0.001", "internal_segment_bytes": 500}
IDLE = {"log.cleaner.enable": "false"}


def updates(keys: int = 40, start: int = 0, count: int = RECORDS) -> list[Sent]:
    """Keys that come again and again, and a tombstone now and then."""
    return [
        Sent(
            None if number % 17 == 4 else b"%d " % number * (number % 6),
            b"key-%d" % (number % keys),
            (),
            0,
            START_MS + number,
        )
        for number in range(start, start + count)
    ]


def latest(rows: list[Row]) -> dict[bytes | None, bytes | None]:
    """What a reader of the whole topic ends up with, deleted keys left out."""
    values = {row.key: row.value for row in rows}
    return {key: value for key, value in values.items() if value is not None}


def write_keyed(bootstrap: str, topic: str, records: list[Sent]) -> None:
    """In many batches, of every codec."""
    fifth = len(records) // len(CODECS)
    for number, codec in enumerate(CODECS):
        clients.write(bootstrap, topic, records[number * fifth : (number + 1) * fifth], codec, batch_records=15)


def write_transactions(bootstrap: str, topic: str) -> None:
    writer = Writer(bootstrap, "lz4", **{"transactional.id": f"writer of {topic}"}).init()
    for number in range(12):
        records = [
            Sent(b"%d" % number, b"key-%d" % ((number + key) % 20), (), 0, START_MS + number) for key in range(8)
        ]
        writer.transaction(topic, records, commit=number % 3 != 1)


def check_with_the_tool(folder: Path) -> None:
    """Kafka's tool finds nothing wrong but gaps between offsets. Raises AssertionError."""
    logs = folders.files(folder, ".log")
    printed, complaints = dumping.dump(logs, *dumping.PRINT)
    assert [
        line
        for line in complaints
        if not line.startswith("Non-consecutive offsets in ") and " is followed by " not in line
    ] == []
    for file in logs:
        dumping.check_log(file, printed[file])
    indexes = folders.files(folder, ".index", ".timeindex")
    dumping.check_sane(indexes)
    complaints = dumping.dump(indexes, *dumping.VERIFY).complaints
    # a batch that was emptied keeps its time; the tool looks for it in the records, and says so of
    # Kafka's own files too
    assert [
        line for line in complaints if "timestamp mismatch in" not in line and "log timestamp: -1" not in line
    ] == []


def test_the_tool_finds_a_log_sound_that_kqueue_compacted(tmp_path: Path) -> None:
    """S5.2, S7.2: written and compacted by kqueue, twice."""
    with serving(tmp_path, **CLEANER) as broker:
        broker.create_topic("compacted", cleanup_policy="compact")
        write_keyed(broker.bootstrap, "compacted", updates())
        folders.wait_until_cleaned(tmp_path, "compacted", RECORDS // 2)
        write_keyed(broker.bootstrap, "compacted", updates(start=RECORDS))
        folders.wait_until_cleaned(tmp_path, "compacted", RECORDS * 3 // 2)
        rows = clients.read(broker.bootstrap, ["compacted"])["compacted"]
    assert len(rows) < RECORDS
    assert latest(rows) == latest([Row(0, 0, 1, 0, one.key, one.value, ()) for one in updates(count=2 * RECORDS)])
    check_with_the_tool(tmp_path / "compacted-0")


@pytest.fixture(scope="module")
def written(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Kafka:
    """A stopped Kafka with two topics of many segments, which it did not compact, for want of a
    cleaner. Copy it.
    """
    node = Kafka(tmp_path_factory.mktemp("written"), IDLE).copy_from(formatted)
    with node:
        for topic in TOPICS:
            clients.create_topic(node.bootstrap, topic, **AT_ONCE)
        write_keyed(node.bootstrap, "keyed", updates())
        write_transactions(node.bootstrap, "txn")
    for topic in TOPICS:
        assert len(folders.files(node.partition(topic), ".log")) > 5
    return node


@pytest.fixture
def dirty(written: Kafka, tmp_path: Path) -> Iterator[Kafka]:
    """A copy of it for a test alone."""
    node = Kafka(tmp_path / "kafka").copy_from(written)
    yield node
    node.kill()


@pytest.fixture(scope="module")
def kafkas(written: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data folder after Kafka has compacted both topics."""
    node = Kafka(tmp_path_factory.mktemp("compacted")).copy_from(written)
    compact_with_kafka(node)
    return node.data


def compact_with_kafka(node: Kafka) -> None:
    """Let Kafka compact both topics as far as it does, and stop."""
    with node:
        for topic in TOPICS:
            folders.wait_until_cleaned(node.data, topic, last_base(node.partition(topic)))


def last_base(folder: Path) -> int:
    """First offset of the active segment."""
    return int(folders.files(folder, ".log")[-1].stem)


def test_kqueue_keeps_what_kafka_keeps(dirty: Kafka, kafkas: Path, tmp_path: Path) -> None:
    """S5.2: the same log, compacted by each: the same records at the same offsets, tombstones and
    transactions among them.
    """
    with serving(dirty.data, **CLEANER):
        for topic in TOPICS:
            folders.wait_until_cleaned(dirty.data, topic, last_base(dirty.partition(topic)))
    for topic in TOPICS:
        for committed in (False, True):
            kept, ours = (
                folders.read(
                    folders.copy(place / f"{topic}-0", tmp_path / name / str(committed) / f"{topic}-0"),
                    committed=committed,
                )
                for name, place in (("kafka", kafkas), ("kqueue", dirty.data))
            )
            assert ours == kept
            assert len(ours) < RECORDS // 4
        check_with_the_tool(dirty.partition(topic))


def test_kafka_goes_on_with_a_log_that_kqueue_compacted(dirty: Kafka) -> None:
    """S5.2, S3.6: Kafka writes, kqueue compacts, Kafka serves, writes and compacts again, kqueue
    serves.
    """
    with serving(dirty.data, **CLEANER) as broker:
        for topic in TOPICS:
            folders.wait_until_cleaned(dirty.data, topic, last_base(dirty.partition(topic)))
        rows = clients.read(broker.bootstrap, TOPICS)
        committed = clients.read(broker.bootstrap, TOPICS, committed=True)
    assert len(rows["keyed"]) < RECORDS // 4
    with dirty:
        assert clients.read(dirty.bootstrap, TOPICS) == rows
        assert clients.read(dirty.bootstrap, TOPICS, committed=True) == committed
        write_keyed(dirty.bootstrap, "keyed", updates(start=RECORDS))
    compact_with_kafka(dirty)
    with serving(dirty.data, **CLEANER) as broker:
        rows = clients.read(broker.bootstrap, ["keyed"])
    assert latest(rows["keyed"]) == latest(
        [Row(0, 0, 1, 0, one.key, one.value, ()) for one in updates(count=2 * RECORDS)]
    )
    assert len(rows["keyed"]) < RECORDS // 2


def leave_cleaned(old: Path, new: Path) -> None:
    """As a crash does while the compacted segments are being written."""
    for file in folders.files(new, *folders.SEGMENT_SUFFIXES)[:4]:
        shutil.copy(file, old / f"{file.name}.cleaned")
    log = old / f"{folders.files(new, '.log')[0].name}.cleaned"
    log.write_bytes(log.read_bytes()[:-7])


def leave_swap(old: Path, new: Path) -> None:
    """As a crash does after the compacted segments were named for good, and before the old ones
    were taken away.
    """
    for file in folders.files(new, *folders.SEGMENT_SUFFIXES):
        if int(file.stem) != last_base(new):
            shutil.copy(file, old / f"{file.name}.swap")


def leave_half_swapped(old: Path, new: Path) -> None:
    """As a crash does when the old segments are named for deletion, and the new ones not in their
    place yet.
    """
    leave_swap(old, new)
    for file in folders.files(old, *folders.SEGMENT_SUFFIXES):
        if int(file.stem) != last_base(old):
            file.rename(file.with_name(f"{file.name}.deleted"))


@pytest.mark.parametrize(
    ("leave", "done"),
    [(leave_cleaned, False), (leave_swap, True), (leave_half_swapped, True)],
    ids=["cleaned", "swap", "half-swapped"],
)
def test_leftovers_of_kafkas_compaction(
    dirty: Kafka, kafkas: Path, tmp_path: Path, leave: Callable[[Path, Path], None], done: bool
) -> None:
    """S5.2: kqueue ends what Kafka was at when it crashed as Kafka does: it keeps the old segments,
    or the new ones.
    """
    dirty.settings = IDLE
    folder, after = dirty.partition("keyed"), kafkas / "keyed-0"
    expected = folders.read(folders.copy(after if done else folder, tmp_path / "expected-0"))
    (dirty.data / ".kafka_cleanshutdown").unlink()
    leave(folder, after)
    left_behind = folders.copy(folder, tmp_path / "left-behind")
    with serving(dirty.data, log_cleaner_enable=False) as broker:
        assert clients.read(broker.bootstrap, ["keyed"])["keyed"] == expected
    assert [file.name for file in folder.iterdir() if file.suffix in (".cleaned", ".swap")] == []
    check_with_the_tool(folder)
    with dirty:
        assert clients.read(dirty.bootstrap, ["keyed"])["keyed"] == expected
    # and what was left is what Kafka leaves: it comes to the same
    shutil.rmtree(folder)
    folders.copy(left_behind, folder)
    (dirty.data / ".kafka_cleanshutdown").unlink()
    with dirty:
        assert clients.read(dirty.bootstrap, ["keyed"])["keyed"] == expected
