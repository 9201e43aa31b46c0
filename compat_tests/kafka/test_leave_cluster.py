"""docs/clusters.md, moving to Apache Kafka: the records of a topic, copied by the commands."""

from __future__ import annotations

from click.testing import CliRunner
from kafka import KafkaAdminClient
from kafka.admin import NewTopic

import kqueue
from compat_tests.kafka.node import Kafka
from kqueue.cli.app import kqueue as root

TOPIC = "orders"
LINES = "".join(f"key {number % 7}:{number}\n" for number in range(300))


def test_records_are_copied_with_partition_time_and_key(kafka: Kafka) -> None:
    run = CliRunner()

    def read(bootstrap: str) -> list[str]:
        """The records as JSON, in the order of each partition."""
        options = ["--from-beginning", "--timeout-ms", "3000", "--format", "json"]
        result = run.invoke(root, ["consume", TOPIC, *options, "-b", bootstrap])
        assert result.exit_code == 0, result.output
        return result.stdout.splitlines()

    settings = {"broker.session.timeout.ms": 2000, "broker.heartbeat.interval.ms": 200}
    with kafka, kqueue.Cluster(3, settings=settings) as cluster:
        admin = KafkaAdminClient(bootstrap_servers=kafka.bootstrap)
        admin.create_topics([NewTopic(TOPIC, 2, 1)])
        admin.close()
        cluster.create_topic(TOPIC, 2, replication_factor=3)
        cluster.wait_in_sync()
        sent = run.invoke(root, ["produce", TOPIC, "-k", ":", "-b", cluster.bootstrap], input=LINES)
        assert sent.exit_code == 0, sent.output
        records = read(cluster.bootstrap)
        assert len(records) == 300
        lines = "".join(f"{line}\n" for line in records)
        copied = run.invoke(root, ["produce", TOPIC, "--format", "json", "-b", kafka.bootstrap], input=lines)
        assert copied.exit_code == 0, copied.output
        assert sorted(read(kafka.bootstrap)) == sorted(records)
