"""A snapshot of a running broker is a folder that Kafka's own tools find sound, and a stopped
Kafka's folder is a snapshot.
"""

from __future__ import annotations

from pathlib import Path

import kqueue
from compat_tests.kafka import clients, dumping, folders
from compat_tests.kafka.node import Kafka


def test_kafkas_tools_find_a_snapshot_sound(tmp_path: Path) -> None:
    with kqueue.Broker(log_index_interval_bytes=100) as broker:
        broker.create_topic("orders", 2)
        broker.create_topic("rolled", segment_bytes=2000)
        for number in range(30):
            broker.topics["orders"].produce(f"v{number}", key=f"k{number}")
            broker.topics["rolled"].produce(b"%d" % number * 100)
        broker.snapshot(tmp_path / "snapshot")
        broker.topics["orders"].produce("after it")
        records = broker.topics["rolled"].records()
    indexes = [
        path for suffix in (".index", ".timeindex") for path in sorted((tmp_path / "snapshot").glob(f"*/*{suffix}"))
    ]
    dumping.check_sane(indexes)
    assert dumping.dump(indexes, *dumping.VERIFY).complaints == []
    logs = sorted((tmp_path / "snapshot").glob("rolled-0/*.log"))
    assert len(logs) > 2
    printed = dumping.dump(logs, *dumping.PRINT)
    assert printed.complaints == []
    payloads = [payload for log in logs for payload in dumping.payloads(printed.lines[log])]
    assert [value for _, value in payloads] == [(record.value or b"").decode() for record in records]


def test_kafkas_data_goes_through_two_snapshots_and_back_to_kafka(kafka: Kafka, tmp_path: Path) -> None:
    """From a stopped Kafka into the memory of a broker, whose snapshot another Kafka serves, with
    what was added on the way.
    """
    with kafka:
        clients.create_topic(kafka.bootstrap, "orders", 2, max_message_bytes=123_456)
        clients.write(kafka.bootstrap, "orders", clients.sample("before", 60, partitions=2), "zstd")
        clients.commit(kafka.bootstrap, "mail", {("orders", 0): 7})
        before = clients.read(kafka.bootstrap, ["orders"])
    original = folders.contents(kafka.data)
    with kqueue.Broker(snapshot=kafka.data, log_retention_ms=-1) as broker:
        assert broker.topics["orders"].config["max.message.bytes"] == 123_456
        assert broker.groups["mail"].offsets == {"orders": {0: 7}}
        assert clients.read(broker.bootstrap, ["orders"]) == before
        broker.topics["orders"].produce_all([("k", f"more {number}") for number in range(10)])
        other = Kafka(tmp_path / "other", ports=kafka.ports)
        broker.snapshot(other.data)
        after = clients.read(broker.bootstrap, ["orders"])
    assert folders.contents(kafka.data) == original
    assert len(after["orders"]) == 70
    with other:
        assert clients.read(other.bootstrap, ["orders"]) == after
        assert clients.committed(other.bootstrap, "mail", [("orders", 0)]) == {("orders", 0): 7}
    assert other.complaints() == []
