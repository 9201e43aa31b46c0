"""What the cluster of the tests holds: topics, groups, users, ACLs and quotas, some with hostile
names.
"""

from __future__ import annotations

import secrets

from kqueue import Cluster
from kqueue.base.clock import wall_ms
from kqueue.client import Client, NewTopic, SaltedPassword, TopicPartition
from kqueue.client.calls.quotas import QuotaAlteration
from kqueue.records.builder import build_batch
from kqueue.records.record import Record
from kqueue.security.acls import AclBinding
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType

HOSTILE = "<img src=x onerror=alert(1)>\"'</script><script>alert(2)</script>\u202e&amp;"
TOPICS = {"orders": 6, "payments": 3, "audit.events": 2, "clicks": 12, "x" * 249: 1}


def fill(cluster: Cluster) -> None:
    """Create all of it."""
    with Client(cluster.bootstrap) as client:
        client.create_topics([NewTopic(name, count, 3) for name, count in TOPICS.items()])
        client.create_topics([NewTopic("prices", 2, 3, {"cleanup.policy": "compact", "segment.bytes": "1048576"})])
        for name, count in TOPICS.items():
            client.produce({TopicPartition(name, index): _batch(name, index) for index in range(count)})
        partition = TopicPartition("orders", 0)
        for group in ("billing", "mailer", HOSTILE):
            client.commit(group, {partition: 3})
        client.transactions.add_partitions(client.transactions.init("till-1", 60_000 * 10), [partition])
        _fill_access(client)


def _batch(name: str, index: int) -> bytearray:
    begin_ms = wall_ms() - 60_000  # an older time would be past the topic's retention
    records = [
        Record(number, begin_ms + number, HOSTILE.encode(), f'{{"n": {number}, "of": "{HOSTILE}"}}'.encode())
        for number in range(10 * (index + 1))
    ]
    return build_batch(records)


def _fill_access(client: Client) -> None:
    allow, literal = AclPermission.ALLOW, PatternType.LITERAL
    topic, group = ResourceType.TOPIC, ResourceType.GROUP
    client.cluster.create_acls(
        [
            AclBinding(topic, "orders", literal, "User:ann", "*", AclOperation.READ, allow),
            AclBinding(topic, "pay", PatternType.PREFIXED, "User:ann", "*", AclOperation.WRITE, allow),
            AclBinding(group, "billing", literal, "User:bob", "192.0.2.7", AclOperation.READ, AclPermission.DENY),
            AclBinding(group, HOSTILE, literal, f"User:{HOSTILE}", "*", AclOperation.READ, allow),
        ]
    )
    client.cluster.alter_quotas(
        [
            QuotaAlteration({"user": "ann"}, {"producer_byte_rate": 1_048_576, "request_percentage": 12.5}),
            QuotaAlteration({"user": HOSTILE, "client-id": None}, {"consumer_byte_rate": 1_000_000}),
            QuotaAlteration({"ip": None}, {"connection_creation_rate": 50}),
        ]
    )
    for user in ("ann", "bob", "<b>eve</b>"):
        client.cluster.set_scram_password(user, SaltedPassword(1, 4096, secrets.token_bytes(24), bytes(32)))
