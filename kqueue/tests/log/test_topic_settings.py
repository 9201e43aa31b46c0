from __future__ import annotations

import re

import pytest

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.base.settings import Catalog, Scope, format_value
from kqueue.log.config import SETTINGS
from kqueue.log.topic_settings import TOPIC_SETTINGS
from kqueue.tests.tables import for_each

KAFKA = {  # Kafka 4.3's topic settings with their defaults
    "cleanup.policy": "delete",
    "compression.gzip.level": "-1",
    "compression.lz4.level": "9",
    "compression.type": "producer",
    "compression.zstd.level": "3",
    "delete.retention.ms": "86400000",
    "file.delete.delay.ms": "60000",
    "flush.messages": "9223372036854775807",
    "flush.ms": "9223372036854775807",
    "follower.replication.throttled.replicas": "",
    "index.interval.bytes": "4096",
    "leader.replication.throttled.replicas": "",
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "max.compaction.lag.ms": "9223372036854775807",
    "max.message.bytes": "1048588",
    "message.timestamp.after.max.ms": "3600000",
    "message.timestamp.before.max.ms": "9223372036854775807",
    "message.timestamp.type": "CreateTime",
    "min.cleanable.dirty.ratio": "0.5",
    "min.compaction.lag.ms": "0",
    "min.insync.replicas": "1",
    "preallocate": "false",
    "remote.log.copy.disable": "false",
    "remote.log.delete.on.disable": "false",
    "remote.storage.enable": "false",
    "retention.bytes": "-1",
    "retention.ms": "604800000",
    "segment.bytes": "1073741824",
    "segment.index.bytes": "10485760",
    "segment.jitter.ms": "0",
    "segment.ms": "604800000",
    "unclean.leader.election.enable": "false",
}


def test_every_topic_setting_of_kafka_is_a_row_with_its_default() -> None:
    assert {
        row.name: format_value(row.default) for row in TOPIC_SETTINGS if not row.name.startswith("kqueue.")
    } == KAFKA
    assert all(row.scope is Scope.TOPIC and row.doc for row in TOPIC_SETTINGS)


def test_defaults_are_valid_themselves() -> None:
    for row in SETTINGS:
        assert row.parse(row.default) == row.default
        assert row.parse(format_value(row.default)) == row.default


@for_each(
    "text, names",
    [
        ("delete", ["delete"]),
        ("compact,delete", ["compact", "delete"]),
        ("[delete, consumed]", ["delete", "consumed"]),
        ("delete,delete", ["delete", "delete"]),
        ("", []),
    ],
)
def test_a_topic_may_have_several_policies(text: str, names: list[str]) -> None:
    assert Config(Catalog(SETTINGS)).for_topic({"cleanup.policy": text})["cleanup.policy"] == names


@for_each(
    "text, words",
    [
        ("compect", "no cleanup policy is called 'compect'; did you mean 'compact'? (there are: "),
        (
            "delete,shred",
            "shred for configuration log.cleanup.policy: String must be one of: compact, delete; no cleanup",
        ),
    ],
)
def test_policies_that_are_not_there_are_refused_with_those_that_are(text: str, words: str) -> None:
    with pytest.raises(SettingError, match=re.escape(words)):
        Config(Catalog(SETTINGS), {"log.cleanup.policy": text})


@for_each(
    "name, bad",
    [
        ("compression.gzip.level", 0),
        ("compression.zstd.level", 23),
        ("cleanup.policy", "compress"),
        ("retention.ms", -2),
        ("flush.messages", 0),
    ],
)
def test_values_that_kafka_refuses_are_refused(name: str, bad: object) -> None:
    row = next(row for row in TOPIC_SETTINGS if row.name == name)
    with pytest.raises(SettingError):
        row.parse(bad)
