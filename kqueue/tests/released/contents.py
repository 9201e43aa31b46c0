"""What the broker of a kept data folder is given, and what a broker serves of it.

Both go over the wire by today's client, so any version of the broker can be asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kqueue.base.config_resources import ConfigChange, ConfigOperation, ResourceType
from kqueue.client import Client, NewTopic, OffsetAndMetadata, SaltedPassword, TopicPartition
from kqueue.client.calls.quotas import QuotaAlteration
from kqueue.records.batch import iter_batches, iter_records
from kqueue.records.batch_header import BatchHeader
from kqueue.records.builder import BatchBuilder
from kqueue.security.acls import AclBinding
from kqueue.security.operations import AclOperation, AclPermission, PatternType
from kqueue.security.operations import ResourceType as AclResource
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, salted_password
from kqueue.wire.apis import BY_MODULE

GROUP = "readers"
TRANSACTIONAL_ID = "payments"
TXN = TopicPartition("txn", 0)
USER, PASSWORD, MECHANISM = "ann", "karo", "SCRAM-SHA-256"
KEPT = {"retention.ms": "-1"}
COMPACTED = {"cleanup.policy": "compact", "segment.bytes": "2000", "min.cleanable.dirty.ratio": "0.01"}
CODECS = ("gzip", "snappy", "lz4", "zstd")
TOPICS = (
    NewTopic("plain", 3, 1, KEPT),
    *(NewTopic(codec, 1, 1, KEPT) for codec in CODECS),
    NewTopic("rolled", 1, 1, {**KEPT, "segment.bytes": "2000"}),
    NewTopic("trimmed", 1, 1, KEPT),
    NewTopic("stamped", 1, 1, {**KEPT, "message.timestamp.type": "LogAppendTime"}),
    NewTopic("txn", 1, 1, KEPT),
    NewTopic("idempotent", 1, 1, {**KEPT, "max.message.bytes": "60000"}),
    NewTopic("compacted", 1, 1, COMPACTED),
)
DYNAMIC = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG")


def fill(client: Client, time_ms: int) -> None:
    """Give a new broker some of everything that it keeps, and its version has.

    Args: time_ms: of the first record; others are up to a second later.
    """
    client.create_topics(TOPICS)
    for topic in TOPICS:
        for partition in range(topic.partitions):
            for batch in _batches(topic.name, time_ms):
                client.produce({TopicPartition(topic.name, partition): batch}, repeatable=True)
    positions = {TopicPartition("plain", number): OffsetAndMetadata(3 + number, -1, "noted") for number in range(3)}
    client.commit(GROUP, positions)
    apis = client.cluster.api_versions().keys()
    for name, write in _OPTIONAL.items():
        if BY_MODULE[name].key in apis:
            write(client, time_ms)


def describe(client: Client) -> dict[str, Any]:
    """Return all that `fill` gave, as JSON. Without what the broker's version does not have."""
    metadata = client.metadata()
    topics = {name: topic for name, topic in sorted(metadata.topics.items()) if not name.startswith("__")}
    configs = client.configs(ResourceType.TOPIC, topics)
    contents: dict[str, Any] = {
        "topics": {
            name: {
                "id": client.topic_id(name).hex(),
                "partitions": len(topic.partitions),
                "settings": _dynamic(configs[name]),
            }
            for name, topic in topics.items()
        },
        "records": {},
        "groups": {
            group: {str(partition): list(row) for partition, row in sorted(client.committed(group).items())}
            for group in sorted(client.groups())
        },
    }
    for name, topic in topics.items():
        for partition in sorted(topic.partitions):
            contents["records"][f"{name}-{partition}"] = _log(client, TopicPartition(name, partition))
    apis = client.cluster.api_versions().keys()
    for api, (section, read) in _SECTIONS.items():
        if BY_MODULE[api].key in apis:
            contents[section] = read(client)
    return contents


def idempotent_batch(producer_id: int, epoch: int, time_ms: int) -> bytes:
    """Return the only batch of topic `idempotent`."""
    builder = BatchBuilder(producer_id=producer_id, epoch=epoch, base_sequence=0)
    builder.append(time_ms, b"key", b"once")
    return bytes(builder.build())


def _batches(topic: str, time_ms: int) -> Iterator[bytes]:
    if topic in ("txn", "idempotent"):
        return
    codec = topic if topic in CODECS else "none"
    for number in range(4 if topic != "rolled" else 12):
        builder = BatchBuilder(codec=codec)
        for index in range(5):
            key = b"key %d" % (index + number % 2)
            value = None if index == 4 else b"value %d.%d " % (number, index) * 8
            builder.append(time_ms + number * 100 + index, key, value, [("batch", b"%d" % number), ("empty", None)])
        yield bytes(builder.build())


def _trim(client: Client, time_ms: int) -> None:
    client.delete_records({TopicPartition("trimmed", 0): 7})


def _write_idempotent(client: Client, time_ms: int) -> None:
    producer = client.init_producer()
    client.produce({TopicPartition("idempotent", 0): idempotent_batch(producer.id, producer.epoch, time_ms)})


def _write_transactions(client: Client, time_ms: int) -> None:
    producer = client.transactions.init(TRANSACTIONAL_ID, 60_000)
    for number, committed in enumerate((True, False, True)):
        client.transactions.add_partitions(producer, [TXN])
        builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=number, transactional=True)
        builder.append(time_ms + number, b"txn", b"committed" if committed else b"aborted")
        client.produce({TXN: builder.build()}, transactional_id=TRANSACTIONAL_ID)
        client.transactions.end(producer, committed=committed)


def _set_settings(client: Client, time_ms: int) -> None:
    for name, setting, value in (("", "message.max.bytes", "900000"), ("1", "log.cleaner.backoff.ms", "14000")):
        client.alter_configs(ResourceType.BROKER, name, [ConfigChange(ConfigOperation.SET, setting, value)])


def _set_password(client: Client, time_ms: int) -> None:
    mechanism = SCRAM_MECHANISMS[MECHANISM]
    salted = salted_password(mechanism, PASSWORD.encode(), b"salt of 16 bytes", 4096)
    client.cluster.set_scram_password(USER, SaltedPassword(mechanism.number, 4096, b"salt of 16 bytes", salted))


def _set_acls(client: Client, time_ms: int) -> None:
    client.cluster.create_acls(
        [
            AclBinding(AclResource.TOPIC, "orders", PatternType.PREFIXED, f"User:{USER}", "*", operation, permission)
            for operation, permission in (
                (AclOperation.READ, AclPermission.ALLOW),
                (AclOperation.DELETE, AclPermission.DENY),
            )
        ]
    )


def _set_quotas(client: Client, time_ms: int) -> None:
    client.cluster.alter_quotas(
        [
            QuotaAlteration({"user": USER}, {"producer_byte_rate": 100_000.0}),
            QuotaAlteration({"client-id": None}, {"request_percentage": 150.0}),
        ]
    )


def _quotas(client: Client) -> list[Any]:
    return sorted(([dict(entry.entity), dict(entry.quotas)] for entry in client.cluster.describe_quotas()), key=str)


def _settings(client: Client) -> dict[str, Any]:
    configs = client.configs(ResourceType.BROKER, ["", "1"])
    return {name: _dynamic(rows) for name, rows in configs.items()}


def _users(client: Client) -> dict[str, Any]:
    # JSON has no numbers as names
    return {
        user: {str(number): iterations for number, iterations in dict(found).items()}  # type: ignore[arg-type]
        for user, found in sorted(client.cluster.scram_users().items())
    }


def _acls(client: Client) -> list[str]:
    return sorted(str(binding) for binding in client.cluster.describe_acls())


_OPTIONAL: dict[str, Callable[[Client, int], None]] = {
    "delete_records": _trim,
    "init_producer_id": _write_idempotent,
    "add_partitions_to_txn": _write_transactions,
    "incremental_alter_configs": _set_settings,
    "alter_user_scram_credentials": _set_password,
    "create_acls": _set_acls,
    "alter_client_quotas": _set_quotas,
}
_SECTIONS: dict[str, tuple[str, Callable[[Client], Any]]] = {
    "incremental_alter_configs": ("settings", _settings),
    "describe_user_scram_credentials": ("users", _users),
    "describe_acls": ("acls", _acls),
    "describe_client_quotas": ("quotas", _quotas),
}


def _dynamic(rows: dict[str, Any]) -> dict[str, str | None]:
    return {name: row.value for name, row in sorted(rows.items()) if row.source in DYNAMIC}


def _log(client: Client, partition: TopicPartition) -> dict[str, Any]:
    """Return the bounds of a log, and its records; of one that is compacted the latest values."""
    start = client.offsets({partition: -2})[partition].offset
    records: list[tuple[BatchHeader, Any]] = []
    offset = start
    while (fetched := client.fetch({partition: offset}, max_wait_ms=0)[partition]).records:
        for position, header in iter_batches(fetched.records):
            records += [(header, record) for record in iter_records(fetched.records, position)]
            offset = header.last_offset + 1
    records = [(header, record) for header, record in records if record.offset >= start]
    ends = {"end": fetched.high_watermark, "stable": fetched.last_stable_offset}
    if partition.topic == "compacted":
        latest = {record.key: record.value for _, record in records}
        return {**ends, "latest": sorted([_text(key), _text(value)] for key, value in latest.items() if value)}
    return {"start": start, **ends, "records": [_row(*row) for row in records]}


def _row(header: BatchHeader, record: Any) -> list[Any]:
    headers = [[name, _text(value)] for name, value in record.headers]
    kind = [header.producer_id, header.producer_epoch, header.is_transactional, header.is_control]
    return [record.offset, record.timestamp, _text(record.key), _text(record.value), headers, *kind]


def _text(data: bytes | None) -> str | None:
    return None if data is None else bytes(data).decode("latin-1")
