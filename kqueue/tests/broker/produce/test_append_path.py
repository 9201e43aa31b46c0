"""How a topic takes records; the API's tests show the rest."""

from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidRecord, RecordTooLarge, TransactionalIdAuthorizationFailed
from kqueue.base.promise import Promise
from kqueue.broker.produce.append_path import RECOMPRESSED_AT_ONCE_MAX
from kqueue.broker.topics.topics import Topic
from kqueue.log.results import AppendResult
from kqueue.records.batch import decompressed, read_header
from kqueue.records.batch_validation import ValidationLevel, ValidationRules
from kqueue.records.builder import BatchBuilder
from kqueue.records.codecs import CODECS
from kqueue.testing.simulation import Simulation
from kqueue.tests.tables import for_each

NOW_MS = 1_700_000_000_000


def raw(*values: bytes, **settings: object) -> memoryview:
    builder = BatchBuilder(**settings)  # type: ignore[arg-type]
    for value in values:
        builder.append(NOW_MS, b"k", value)
    return memoryview(builder.build())


def append(topic: Topic, records: memoryview | None, version: int = 9) -> AppendResult:
    appended = topic.appender.append(topic.partition(0), records, now_ms=NOW_MS, produce_version=version)
    assert isinstance(appended, AppendResult), "what is small is appended at once"
    return appended


def test_the_rules_are_the_topics_settings() -> None:
    sim = Simulation()
    topic = sim.topic(
        "t",
        max_message_bytes="77",
        cleanup_policy="compact,delete",
        message_timestamp_type="LogAppendTime",
        message_timestamp_before_max_ms="5",
        message_timestamp_after_max_ms="6",
    )
    assert topic.appender.rules == ValidationRules(
        level=ValidationLevel.QUICK,
        max_batch_bytes=77,
        keys_required=True,
        log_append_time=True,
        before_max_ms=5,
        after_max_ms=6,
        limit_bytes=32 << 20,
    )


def test_a_bomb_is_refused_where_its_records_have_to_be_looked_at() -> None:
    sim = Simulation({"kqueue.max.decompressed.bytes": 5000})
    topic = sim.topic("t", cleanup_policy="compact")
    append(topic, raw(b"x" * 4000, codec="zstd"))
    with pytest.raises(InvalidRecord, match="5000"):
        append(topic, raw(b"x" * 6000, codec="zstd"))


def test_a_topic_builds_its_appender_once() -> None:
    sim = Simulation()
    topic = sim.topic("t", compression_type="zstd")
    assert topic.appender is topic.appender
    assert sim.topic("u").appender is not topic.appender


def test_offsets_are_written_into_what_came() -> None:
    topic = Simulation().topic("t")
    append(topic, raw(b"a", b"b"))
    records = raw(b"c")
    assert append(topic, records)[:2] == (2, 2)
    assert int.from_bytes(records[:8], "big") == 2


def test_several_batches_of_an_old_client_are_appended_one_after_another() -> None:
    topic = Simulation().topic("t")
    both = memoryview(bytearray(bytes(raw(b"a", b"b")) + bytes(raw(b"c"))))
    appended = append(topic, both, version=2)
    assert (appended.base_offset, appended.last_offset, appended.next_offset) == (0, 2, 3)


@for_each("records", [None, memoryview(b"")])
@for_each("version", [2, 9])
def test_an_append_without_records_is_refused(records: memoryview | None, version: int) -> None:
    with pytest.raises(InvalidRecord):
        append(Simulation().topic("t"), records, version)


@for_each("version", [2, 9])
def test_a_batch_of_a_transaction_needs_the_transaction_of_its_request(version: int) -> None:
    topic = Simulation().topic("t")
    with pytest.raises(TransactionalIdAuthorizationFailed):
        append(topic, raw(b"a", transactional=True, producer_id=1, epoch=0, base_sequence=0), version)
    assert topic.partition(0).log_end_offset == 0


def test_a_recompressed_batch_keeps_headers_and_its_own_level() -> None:
    topic = Simulation().topic("t", compression_type="gzip", compression_gzip_level="1")
    fast = append_size(topic)
    best = append_size(Simulation().topic("t", compression_type="gzip", compression_gzip_level="9"))
    assert best < fast


def append_size(topic: Topic) -> int:
    batch = raw(*(b"%d" % (number * number) for number in range(3000)))
    topic.appender.append_now(topic.partition(0), batch, now_ms=NOW_MS, produce_version=9)
    return topic.partition(0).log.segments.size


def test_recompression_keeps_the_bytes_of_the_records() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    topic = sim.topic("t", compression_type="zstd")
    records = BatchBuilder(codec="lz4")
    records.append(NOW_MS, b"k", b"v", [("h", b"1")])
    sent = memoryview(records.build())
    before = decompressed(sent, 0, read_header(sent), 1 << 20)
    append(topic, sent)
    stored = topic.partition(0).read_now(0, 1 << 20).read()
    header = read_header(stored)
    assert header.codec_id == CODECS.get("zstd").id
    assert decompressed(stored, 0, header, 1 << 20) == before


def test_a_batch_that_the_topics_codec_makes_too_large_is_refused() -> None:
    topic = Simulation().topic("t", compression_type="uncompressed", max_message_bytes="2000")
    append(topic, raw(b"x" * 1800, codec="zstd"))
    with pytest.raises(RecordTooLarge, match=r"after compression with none, where max\.message\.bytes is 2000"):
        append(topic, raw(b"x" * 2000, codec="zstd"))
    assert topic.partition(0).log_end_offset == 1


def test_recompression_of_more_than_a_little_leaves_the_request() -> None:
    sim = Simulation()
    topic = sim.topic("t", compression_type="zstd", compression_zstd_level="22")
    assert isinstance(append(topic, raw(b"x" * (RECOMPRESSED_AT_ONCE_MAX - 100), codec="lz4")), AppendResult)
    for codec in ("lz4", "none"):  # an uncompressed batch has no limit to exceed
        large = raw(b"x" * (RECOMPRESSED_AT_ONCE_MAX + 1), codec=codec)
        deferred = topic.appender.append(topic.partition(0), large, now_ms=NOW_MS, produce_version=9)
        assert isinstance(deferred, Promise)
        sim.settle()
        assert deferred.result().last_offset == topic.partition(0).log_end_offset - 1
