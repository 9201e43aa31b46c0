"""What a topic holds, by the command."""

from __future__ import annotations

import json
from collections.abc import Callable

from click.testing import CliRunner
from pyspark.sql import SparkSession

import kqueue
from kqueue.cli.app import kqueue as command

NewTopic = Callable[..., str]


def test_audit_by_the_command(spark: SparkSession, broker: kqueue.Broker, new_topic: NewTopic) -> None:
    topic = new_topic(2)
    for value, key in (("a", None), ("a", None), (None, "k"), ("", "k"), ("b", None)):
        broker.topics[topic].produce(value, key, partition=0, timestamp=1_700_000_000_000)
    arguments = ["pipeline", "audit", "-t", topic, "-b", broker.bootstrap]
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"topic": topic, "partition": 0, "records": 5, "first": 0, "last": 4, "gaps": 0, "repeated": 1,
         "first_ms": 1_700_000_000_000, "last_ms": 1_700_000_000_000},
    ]  # fmt: skip
    assert CliRunner().invoke(command, arguments).stdout.splitlines()[1].split() == [topic, "0", "5", "0", "4", "0", "1"]
    assert spark.range(1).count() == 1  # a session that was there is left running
