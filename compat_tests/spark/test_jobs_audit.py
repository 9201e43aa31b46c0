"""The audit of topics, by the function and by the command."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from kafka import KafkaProducer
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command
from kqueue.client import Client, TopicPartition
from kqueue.records.builder import BatchBuilder
from kqueue.records.record import ABORT, control_key_value
from kqueue.spark.errors import OptionError
from kqueue.spark.jobs.audit import audit
from kqueue.spark.jobs.audit.partition_summary import from_json
from kqueue.spark.jobs.audit.record_scan import PlannedPartition, _edges, summarizing
from kqueue.spark.source.split_planner import OffsetRange, split_ranges
from kqueue.tests import golden

NewTopic = Callable[..., str]
ALWAYS_MS = 1_700_000_000_000


@pytest.mark.parametrize("version", [pytest.param(golden.VERSIONS[0], marks=pytest.mark.thorough), golden.VERSIONS[-1]])
def test_offsets_of_kafka_folders_are_explained(spark: SparkSession, version: str) -> None:
    """Every offset is explained without a broker: compaction, transactions, group progress."""
    report = audit(spark, {"path": str(golden.data_folder(version)), "includeActiveSegment": "true"})
    expected = golden.expected(version)
    rows = {(row.topic, row.partition): row for row in report.partitions}
    seen = 0
    for topic, of_topic in expected.items():
        for partition, (low, high) in of_topic.watermarks.items() if ":" not in topic else ():
            row, records = rows.pop((topic, partition)), of_topic.of_partition(partition)
            assert (row.start, row.end, row.records) == (low, high, len(records)), topic
            assert row.bytes == sum(len(one.key or b"") + len(one.value or b"") for one in records), topic
            assert row.keys == len({one.key for one in records} - {None}), topic
            times = [one.timestamp for one in records if one.timestamp_type]
            assert (row.first_ms, row.last_ms) == ((min(times), max(times)) if times else (None, None)), topic
            assert row.deleted + row.records + row.markers + row.compacted == row.end, topic
            assert row.missing == row.repeated == 0, topic
            seen += 1
    assert seen > 10
    assert not rows  # internal topics are skipped
    txn = next(row for row in report.partitions if row.topic == "txn")
    assert txn.markers > 0
    assert (txn.aborted, txn.open) == (txn.records - len(expected["txn:committed"].records), 0)
    assert {gap.why for gap in txn.gaps} == {"marker"}
    (compacted,) = (row for row in report.partitions if row.compacted)
    assert compacted.topic == "compacted"
    (lag,) = report.lags
    assert (lag.group, lag.topic, lag.committed, lag.lag) == ("golden-v2-gzip", "v2-gzip", 123, 177)
    assert lag.oldest_ms == next(one.timestamp for one in expected["v2-gzip"].records if one.offset == 123)


def test_ranges_of_other_tasks_are_not_gaps() -> None:
    """A task reads the first and the third range of a partition.

    One batch of rows has the end of one range and the beginning of the other.
    """
    plan = {
        TopicPartition("t", 0): PlannedPartition(0, OffsetRange("t", 0, 0, 30), _edges(OffsetRange("t", 0, 0, 30), 10))
    }
    offsets = [0, 1, 4, 22, 23]
    rows = {name: [1] * len(offsets) for name in ("ms", "content", "key_hash", "key_bytes", "value_bytes")}
    columns = {"topic": ["t"] * len(offsets), "partition": [0] * len(offsets), "offset": offsets, **rows}
    (cut,) = plan.values()
    assert (0, *cut.edges) == tuple(
        one.start for (one,) in split_ranges([cut.range], lambda topic_partition: 1, split_bytes=1, rows_max=10)
    )
    seen = pa.Table.from_batches(list(summarizing(plan)([pa.RecordBatch.from_pydict(columns)]))).to_pylist()
    assert [row["offset"] for row in seen if row["summary"] is None] == offsets
    summaries = [from_json(row["summary"]) for row in seen if row["summary"] is not None]
    assert [(one.first, one.last, one.records, one.gaps) for one in summaries] == [(0, 4, 3, [(2, 4)]), (22, 23, 2, [])]


def test_unexplained_gaps_are_reported_as_missing(spark: SparkSession, tmp_path: Path) -> None:
    """Missing batches next to a control batch and an aborted transaction."""
    data = bytearray()
    for offset, count, how in (
        (0, 3, {}),
        (5, 2, {"producer_id": 7, "epoch": 0, "base_sequence": 0, "transactional": True}),
        (9, 1, {}),
    ):
        builder = BatchBuilder(base_offset=offset, **how)
        for number in range(count):
            builder.append(ALWAYS_MS + 10 * offset + number, None, b"%d" % (offset + number))
        data += builder.build()
        if how:
            marker = BatchBuilder(base_offset=7, producer_id=7, epoch=0, transactional=True, control=True)
            marker.append(ALWAYS_MS, *control_key_value(ABORT, 0))
            data += marker.build()
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / f"{0:020}.log").write_bytes(data)
    with pytest.raises(OptionError, match="nothing can be read: .* 10 offsets in the last segments"):
        audit(spark, {"path": str(tmp_path)})
    report = audit(spark, {"path": str(tmp_path), "includeActiveSegment": "true"})
    (row,) = report.partitions
    assert report.note == ""
    assert (row.records, row.missing, row.markers, row.compacted, row.aborted) == (6, 3, 1, 0, 2)
    assert row.gaps == ((3, 5, "missing"), (7, 9, "missing"))
    assert "ask a broker" in report.lag_unknown
    (tmp_path / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 10\n")
    (row,) = audit(spark, {"path": str(tmp_path), "includeActiveSegment": "true"}).partitions
    assert (row.missing, row.markers, row.compacted) == (0, 1, 3)


def test_records_of_transactions_are_counted(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    """Also those before the first marker, which may be the only one, and those of an open one."""
    topic = new_topic(3)
    for partition, ends in ((0, (5, 3)), (1, (5,)), (2, ())):
        producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=f"{topic}-{partition}")
        producer.init_transactions()
        for count in ends:
            producer.begin_transaction()
            for _ in range(count):
                producer.send(topic, b"x", partition=partition)
            producer.flush()
            if count == 5:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
        if not ends:
            producer.begin_transaction()
            producer.send(topic, b"x", partition=partition).get(60)
            report = audit(spark, {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic})
            producer.abort_transaction()
        producer.close()
    assert [(row.markers, row.aborted, row.open) for row in report.partitions] == [(2, 5, 0), (1, 5, 0), (0, 0, 1)]


def test_audit_command_reports_partitions_lags_and_findings(
    spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, other = new_topic(2), new_topic(1)
    told = (
        ("a", None, None),
        ("a", None, None),
        ("a", None, "h"),
        (None, "k", None),
        ("", "k", None),
        ("b", "l", None),
    )
    for value, key, header in told:
        headers = {"head": header} if header else {}
        broker.topics[topic].produce(value, key, partition=0, timestamp=ALWAYS_MS, headers=headers)
    for number in range(4):
        broker.topics[other].produce(str(number), timestamp=ALWAYS_MS - number)
    with Client(broker.bootstrap) as client:
        client.delete_records({TopicPartition(other, 0): 2})
        client.commit("behind", {TopicPartition(other, 0): 1, TopicPartition(topic, 0): 6})
    arguments = ["pipeline", "audit", "-b", broker.bootstrap]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    told = [json.loads(line) for line in result.stdout.splitlines()]
    rows = {(row["topic"], row["partition"]): row for row in told if row["kind"] == "partition"}
    assert list(rows) == sorted([(topic, 0), (topic, 1), (other, 0)])
    row = rows[topic, 0]
    assert (row["records"], row["repeated"], row["example"], row["keys"], row["keyless"], row["tombstones"]) == (
        6,
        1,
        [0, 1],
        2,
        3,
        1,
    )
    assert (rows[topic, 1]["records"], rows[topic, 1]["end"]) == (0, 0)
    row = rows[other, 0]
    assert (row["deleted"], row["start"], row["records"], row["backward"], row["backward_ms"]) == (2, 2, 2, 1, 1)
    lags = [(row["topic"], row["lag"], row["deleted"], row["oldest_ms"]) for row in told if row["kind"] == "lag"]
    assert lags == sorted([(topic, 0, 0, None), (other, 2, 1, ALWAYS_MS - 2)])
    result = CliRunner().invoke(command, [*arguments, "-t", topic, "--strict", "--report", str(tmp_path / "report")])
    assert result.exit_code == 3, result.output
    assert f"{topic}-0: 1 record is the same as an earlier one, for example offset 1 as 0." in result.stdout
    page = (tmp_path / "report" / "report.html").read_text()
    assert page.count('src="data:image/png;base64,') == 3
    assert not re.search(r'(?:src|href)="(?!data:)', page)
    assert {path.name for path in (tmp_path / "report").iterdir()} == {
        "report.html",
        "records.png",
        "skew.png",
        "lag.png",
    }
    result = CliRunner().invoke(command, [*arguments, "-t", "no-such"])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no topic 'no-such'" in result.stderr
    assert spark.range(1).count() == 1  # an existing session is left running
