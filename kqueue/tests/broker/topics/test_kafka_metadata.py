from __future__ import annotations

import contextlib
import struct
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptBatch
from kqueue.broker.topics.kafka_metadata import KafkaTopics, log_fingerprint, read_topics
from kqueue.records.builder import BatchBuilder
from kqueue.storage import LocalStorage, MemoryStorage, Storage
from kqueue.tests import golden

FOLDER = "__cluster_metadata-0"
LOG = f"{FOLDER}/{0:020d}.log"
ID, OTHER = b"i" * 16, b"o" * 16


def text(value: str | None) -> bytes:
    return b"\0" if value is None else bytes([len(value) + 1]) + value.encode()


def record(kind: int, fields: bytes) -> bytes:
    return bytes([1, kind, 0]) + fields + b"\0"


def topic(name: str, id: bytes = ID) -> bytes:
    return record(2, text(name) + id)


def partition(index: int, id: bytes = ID) -> bytes:
    return record(3, struct.pack(">i", index) + id + b"\x02\0\0\0\1")


def setting(name: str, key: str, value: str | None, owner: int = 2) -> bytes:
    return record(4, bytes([owner]) + text(name) + text(key) + text(value))


def removed(id: bytes = ID) -> bytes:
    return record(9, id)


BEGIN, END, TAKEN_BACK = record(23, b"\0"), record(24, b""), record(25, b"\0")


def write(storage: Storage, values: Sequence[bytes], path: str = LOG, base_offset: int = 0) -> None:
    """A batch for each record."""
    if not storage.exists(FOLDER):
        storage.make_folder(FOLDER)
    file = storage.open(path, create=True)
    for number, value in enumerate(values):
        builder = BatchBuilder(base_offset=base_offset + number, leader_epoch=1)
        builder.append(0, None, value)
        file.append(builder.build())
    file.close()


def read(values: Sequence[bytes]) -> dict[bytes, tuple[str, int, dict[str, str]]]:
    storage = MemoryStorage()
    write(storage, values)
    return facts(storage)


def facts(storage: Storage) -> dict[bytes, tuple[str, int, dict[str, str]]]:
    return {id: (one.name, one.count, one.configs) for id, one in read_topics(storage, FOLDER).by_id.items()}


def test_topics_with_partitions_and_settings() -> None:
    """S3.6: settings may come before their topic; settings of brokers belong to no topic."""
    values = [setting("a", "segment.ms", "5"), topic("a"), partition(0), partition(2), partition(1)]
    values += [setting("a", "cleanup.policy", "compact")]
    values += [
        setting("a", "segment.ms", None),
        setting("a", "retention.ms", "7", owner=4),
        topic("b", OTHER),
        partition(0, OTHER),
    ]
    assert read(values) == {ID: ("a", 3, {"cleanup.policy": "compact"}), OTHER: ("b", 1, {})}


def test_a_topic_that_was_removed_takes_its_settings_along() -> None:
    values = [
        topic("a"),
        setting("a", "segment.ms", "5"),
        partition(0),
        removed(),
        topic("a", OTHER),
        partition(0, OTHER),
    ]
    assert read(values) == {OTHER: ("a", 1, {})}


def test_records_that_were_taken_back_count_for_nothing() -> None:
    values = [
        topic("a"),
        BEGIN,
        topic("b", OTHER),
        setting("a", "segment.ms", "5"),
        partition(3),
        TAKEN_BACK,
        partition(0),
    ]
    assert read(values) == {ID: ("a", 1, {})}
    assert read([BEGIN, topic("a"), END]) == {ID: ("a", 0, {})}


def test_other_kinds_of_records_are_passed_over() -> None:
    assert read([record(0, b"broker"), topic("a"), record(127, b""), bytes([2, 9, 0]) + ID]) == {ID: ("a", 0, {})}


def test_the_newest_snapshot_is_read_and_the_log_from_there_on() -> None:
    storage = MemoryStorage()
    write(storage, [topic("old", OTHER)], f"{FOLDER}/{1:020d}-{1:010d}.checkpoint")
    write(storage, [topic("a"), partition(0)], f"{FOLDER}/{5:020d}-{1:010d}.checkpoint")
    write(storage, [topic("went", OTHER), removed(OTHER), topic("went", OTHER)], base_offset=2)
    write(storage, [partition(1)], f"{FOLDER}/{5:020d}.log", base_offset=5)
    assert facts(storage) == {ID: ("a", 2, {})}


def test_damaged_record_ends_the_metadata_log(caplog: pytest.LogCaptureFixture) -> None:
    """S5.3: a torn end is ignored, and damage is logged."""
    storage = MemoryStorage()
    write(storage, [topic("a"), partition(0), partition(1)])
    file = storage.open(LOG)
    whole = file.read_at(0, file.size)
    file.truncate(file.size - 3)
    assert facts(storage) == {ID: ("a", 1, {})}
    assert not caplog.records
    file.truncate(0)
    file.append(whole[:-10] + b"\xff" + whole[-9:])
    assert facts(storage) == {ID: ("a", 1, {})}
    assert "are unknown" in caplog.text


@given(st.sampled_from([topic("name"), partition(7), setting("name", "segment.ms", "5"), removed()]), st.data())
def test_a_record_that_is_cut_off_or_changed_is_refused_or_another_record(whole: bytes, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(whole) - 1))
    bits = data.draw(st.integers(0, 255))
    for raw in (whole[:cut], whole[:cut] + bytes([bits]) + whole[cut + 1 :]):
        with contextlib.suppress(CorruptBatch):
            KafkaTopics().apply(raw)


def test_the_mark_changes_with_every_record_and_every_segment() -> None:
    storage = MemoryStorage()
    marks = []
    for path in (LOG, LOG, f"{FOLDER}/{9:020d}.log"):
        write(storage, [topic("a")], path)
        marks.append(log_fingerprint(storage, FOLDER))
    assert len(set(marks)) == 3
    assert log_fingerprint(storage, FOLDER) == marks[-1]


def test_kafkas_own_metadata_is_read() -> None:
    """S3.6: as Kafka 4.3 left it."""
    stored_topics = read_topics(LocalStorage(golden.data_folder("4.3")), FOLDER).by_id.values()
    topics = {candidate.name: candidate for candidate in stored_topics}
    assert topics["v2-three-partitions"].count == 3
    assert topics["empty"].count == 2
    assert topics["compacted"].configs["cleanup.policy"] == "compact"
    assert topics["v2-logappend"].configs["message.timestamp.type"] == "LogAppendTime"
    assert topics["__consumer_offsets"].count == 4
