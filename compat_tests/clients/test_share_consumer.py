"""Share groups (KIP-932) with librdkafka, the one Python client that has them: acknowledging,
sharing a partition, members that die or leave, the delivery limit, settings of the group.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pytest

from compat_tests.clients.adapters.contract import SHARE_GROUPS
from compat_tests.clients.brokers import EXTERNAL, RunningBroker, serving
from compat_tests.clients.protocol_client import create_topic
from compat_tests.clients.security import connecting
from compat_tests.waits import HangLimit

confluent_kafka = pytest.importorskip("confluent_kafka")
if not hasattr(confluent_kafka, "ShareConsumer"):
    pytest.skip("this version of confluent-kafka has no share groups", allow_module_level=True)

from confluent_kafka import AcknowledgeType  # noqa: E402 - there is one
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType  # noqa: E402

from compat_tests.clients.adapters.confluent_errors import CALL_TIMEOUT_S, QUIET  # noqa: E402 - it needs the client
from compat_tests.clients.share_member import holding, member_settings  # noqa: E402 - it needs share groups

SESSION_MS = 2000
LOCK_MS = 1000  # the shortest that a group may set
WAIT_S = 30
QUIET_S = 1.5  # longer than a lock: what would be delivered again has been
SETTINGS = {
    "group.share.min.session.timeout.ms": 500,
    "group.share.session.timeout.ms": SESSION_MS,
    "group.share.min.record.lock.duration.ms": LOCK_MS,
}
"""The locks last Kafka's 30 s, unless a group has its own."""


class Delivery(NamedTuple):
    """What a member got: `count` is the number of this delivery of the record."""

    offset: int
    count: int


class Group:
    """A share group on a new topic of one partition."""

    def __init__(self, bootstrap: str, name: Callable[[str], str], stack: ExitStack) -> None:
        self.bootstrap, self.topic, self.group = bootstrap, name("topic"), name("share")
        self._stack = stack
        self._producer = confluent_kafka.Producer({**QUIET, **connecting("confluent-kafka", bootstrap)})
        create_topic(bootstrap, self.topic)

    def configure(self, **settings: str) -> None:
        """Set settings of the group, named with `_` for `.`."""
        entries = [
            ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.GROUP, self.group, incremental_configs=entries)
        admin = AdminClient({**QUIET, **connecting("confluent-kafka", self.bootstrap)})
        admin.incremental_alter_configs([resource])[resource].result(CALL_TIMEOUT_S)

    def produce(self, count: int) -> None:
        """Write records, each as a batch of its own."""
        for number in range(count):
            self._producer.produce(self.topic, b"%d" % number)
            assert self._producer.flush(CALL_TIMEOUT_S) == 0

    def member(self, mode: str = "explicit", **settings: Any) -> Any:
        consumer = confluent_kafka.ShareConsumer(
            member_settings(self.bootstrap, self.group, share_acknowledgement_mode=mode, **settings)
        )
        self._stack.callback(consumer.close)
        consumer.subscribe([self.topic])
        return consumer


def read(member: Any, count: int, kind: int | None = AcknowledgeType.ACCEPT) -> list[Delivery]:
    """Poll until `count` records are received, and acknowledge them (None: don't)."""
    deliveries: list[Delivery] = []
    limit = HangLimit(f"{count} records", WAIT_S)
    while len(deliveries) < count:
        limit.check(deliveries)
        for message in member.poll(0.5):
            assert message.error() is None
            deliveries.append(Delivery(message.offset(), message.delivery_count()))
            if kind is not None:
                member.acknowledge(message, kind)
    assert len(deliveries) == count
    return deliveries


def commit(member: Any) -> None:
    failures = [error for error in member.commit_sync(CALL_TIMEOUT_S).values() if error]
    assert not failures


def nothing_more(member: Any) -> None:
    deadline = time.monotonic() + QUIET_S
    while time.monotonic() < deadline:
        assert [message.offset() for message in member.poll(0.2)] == []


def first_deliveries(*offsets: int) -> list[Delivery]:
    return [Delivery(offset, 1) for offset in offsets]


@pytest.fixture(autouse=True)
def needed(needs: Callable[[str], None]) -> None:
    needs(SHARE_GROUPS)


@pytest.fixture(scope="module")
def share_broker(
    storage: str, pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningBroker]:
    """A broker whose share groups may have short locks; an external one has SETTINGS too."""
    if storage == EXTERNAL:
        yield RunningBroker(EXTERNAL, pytestconfig.getoption("bootstrap"), SESSION_MS)
        return
    with serving(storage, tmp_path_factory.mktemp("broker"), SESSION_MS, SETTINGS) as running:
        yield running


@pytest.fixture
def group(share_broker: RunningBroker, name: Callable[[str], str]) -> Iterator[Group]:
    """A group that begins at the start of its topic."""
    with ExitStack() as stack:
        made = Group(share_broker.bootstrap, name, stack)
        made.configure(share_auto_offset_reset="earliest")
        yield made


def test_implicit_acknowledgement_accepts_what_was_polled(group: Group) -> None:
    group.produce(3)
    member = group.member("implicit")
    assert read(member, 3, kind=None) == first_deliveries(0, 1, 2)
    nothing_more(member)  # a poll accepts what the one before returned
    group.produce(1)
    assert read(member, 1, kind=None) == first_deliveries(3)
    commit(member)
    member.close()
    group.produce(1)
    assert read(group.member(), 1) == first_deliveries(4)


def test_released_records_come_again_and_others_do_not(group: Group) -> None:
    group.produce(6)
    member = group.member()
    assert read(member, 6, kind=None) == first_deliveries(*range(6))
    kinds = {0: AcknowledgeType.ACCEPT, 1: AcknowledgeType.RELEASE, 2: AcknowledgeType.REJECT}
    for offset in range(6):
        member.acknowledge_offset(group.topic, 0, offset, kinds[offset % 3])
    commit(member)
    assert read(member, 2) == [Delivery(1, 2), Delivery(4, 2)]
    commit(member)
    nothing_more(member)


def test_the_callback_has_the_acknowledged_offsets(group: Group) -> None:
    group.produce(2)
    member = group.member()
    acknowledged: list[tuple[dict[Any, set[int]], object]] = []
    member.set_acknowledgement_commit_callback(lambda offsets, error: acknowledged.append((offsets, error)))
    read(member, 2)
    member.commit_async()
    limit = HangLimit("a call of the callback", WAIT_S)
    while not acknowledged:
        limit.check()
        member.poll(0.1)
    ((offsets, error),) = acknowledged
    assert error is None
    assert [(one.topic, one.partition, each) for one, each in offsets.items()] == [(group.topic, 0, {0, 1})]


def test_two_members_share_one_partition(group: Group) -> None:
    group.produce(40)
    members = [group.member(max_poll_records=1) for _ in range(2)]
    offsets: list[list[int]] = [[], []]
    limit = HangLimit("40 records", WAIT_S)
    while sum(map(len, offsets)) < 40:
        limit.check(offsets)
        for member, own in zip(members, offsets, strict=True):
            for message in member.poll(0.2):
                assert message.error() is None
                own.append(message.offset())
                member.acknowledge(message)
    assert sorted(offsets[0] + offsets[1]) == list(range(40))
    assert all(offsets), "a member got nothing"


def test_records_of_a_killed_member_come_again(group: Group) -> None:
    """Its connection ends: they need not wait for the end of their locks, which is 30 s away."""
    group.produce(4)
    with holding(group.bootstrap, group.group, group.topic) as held:
        assert held
    started = time.monotonic()
    assert [one.offset for one in read(group.member(), 4)] == [0, 1, 2, 3]
    assert time.monotonic() - started < 20


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_records_of_a_member_that_leaves_come_again(group: Group, mode: str) -> None:
    group.produce(4)
    leaving = group.member(mode)
    assert read(leaving, 4, kind=None) == first_deliveries(0, 1, 2, 3)
    leaving.close()
    assert [one.offset for one in read(group.member(), 4)] == [0, 1, 2, 3]


def test_records_come_again_after_the_groups_lock_duration(group: Group) -> None:
    group.configure(share_record_lock_duration_ms=str(LOCK_MS))
    group.produce(2)
    slow, other = group.member(), group.member()
    assert len(read(slow, 2, kind=None)) == 2
    started = time.monotonic()
    assert read(other, 2) == [Delivery(0, 2), Delivery(1, 2)]
    assert time.monotonic() - started < 20


def test_the_groups_delivery_limit(group: Group) -> None:
    group.configure(share_delivery_count_limit="2")
    group.produce(1)
    member = group.member()
    for count in (1, 2):
        assert read(member, 1, AcknowledgeType.RELEASE) == [Delivery(0, count)]
        commit(member)
    group.produce(1)
    assert read(member, 1) == first_deliveries(1)
    commit(member)
    nothing_more(member)


def test_a_group_begins_at_the_end_by_default(share_broker: RunningBroker, name: Callable[[str], str]) -> None:
    with ExitStack() as stack:
        group = Group(share_broker.bootstrap, name, stack)
        group.produce(3)
        member = group.member()
        nothing_more(member)
        group.produce(1)
        assert read(member, 1) == first_deliveries(3)


@pytest.mark.parametrize(("level", "expected"), [("read_uncommitted", [0, 2]), ("read_committed", [2])])
def test_the_groups_isolation_level(group: Group, level: str, expected: list[int]) -> None:
    """Offset 0 is aborted, 1 is the marker, 2 is committed."""
    group.configure(share_isolation_level=level)
    producer = confluent_kafka.Producer(
        {**QUIET, **connecting("confluent-kafka", group.bootstrap), "transactional.id": f"{group.group}-txn"}
    )
    producer.init_transactions(CALL_TIMEOUT_S)
    for end in (producer.abort_transaction, producer.commit_transaction):
        producer.begin_transaction()
        producer.produce(group.topic, b"value")
        assert producer.flush(CALL_TIMEOUT_S) == 0
        end(CALL_TIMEOUT_S)
    member = group.member()
    assert [one.offset for one in read(member, len(expected))] == expected
    nothing_more(member)


def test_a_group_goes_on_after_a_restart(
    storage: str, tmp_path_factory: pytest.TempPathFactory, name: Callable[[str], str]
) -> None:
    if storage == EXTERNAL:
        pytest.skip("an external broker is not restarted")
    with serving(storage, tmp_path_factory.mktemp("restarted"), SESSION_MS, SETTINGS) as running, ExitStack() as stack:
        group = Group(running.bootstrap, name, stack)
        group.configure(share_auto_offset_reset="earliest")
        group.produce(4)
        member = group.member()
        read(member, 4, kind=None)
        member.acknowledge_offset(group.topic, 0, 1)
        for offset in (0, 2, 3):
            member.acknowledge_offset(group.topic, 0, offset, AcknowledgeType.RELEASE)
        commit(member)
        running.restart()
        group.produce(1)
        assert [one.offset for one in read(group.member(), 4)] == [0, 2, 3, 4]
