"""Consumer groups of the new protocol (KIP-848) with librdkafka, the one Python client that has it:
joining, leaving, failure, patterns, static members, and offsets over a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import pytest

from compat_tests.clients.adapters.contract import CONSUMER_PROTOCOL, Place
from compat_tests.clients.brokers import EXTERNAL, RunningBroker, serving
from compat_tests.clients.protocol_client import committed, create_topic
from compat_tests.clients.security import connecting, own_security
from compat_tests.waits import LIMIT_S, eventually
from kqueue.base.addresses import parse_addresses
from kqueue.client import ClientOptions
from kqueue.client.connection import Connection
from kqueue.client.deadline import Deadline
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

confluent_kafka = pytest.importorskip("confluent_kafka")

SESSION_MS = 2000
HEARTBEAT = BY_MODULE["consumer_group_heartbeat"]
NOT_COORDINATOR = 16
SETTINGS = {
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.assignment.interval.ms": 100,
}


class Member:
    """A consumer that polls in a thread. `held`: its partitions; `values`: what it has read."""

    def __init__(self, bootstrap: str, group: str, topics: list[str], **settings: str) -> None:
        self.held: list[tuple[str, int]] = []
        self.values: list[bytes] = []
        self.errors: list[str] = []
        self._ends, self._commits = threading.Event(), threading.Event()
        self._consumer: Any = confluent_kafka.Consumer(
            {
                **connecting("confluent-kafka", bootstrap),
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "topic.metadata.refresh.interval.ms": 300,
                **{name.replace("_", "."): value for name, value in {"group_protocol": "consumer", **settings}.items()},
            }
        )
        self._consumer.subscribe(topics)
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Member:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()

    def leave(self) -> None:
        self._ends.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive(), f"the member does not end within {LIMIT_S:g} s; it has {self.held}"
        if self._consumer is not None:
            self._consumer.close()
            self._consumer, self.held = None, []

    def commit(self) -> None:
        """Commit what was read; a consumer is used by its own thread only."""
        self._commits.set()
        eventually(lambda: not self._commits.is_set(), "the offsets are committed")

    def _run(self) -> None:
        while not self._ends.is_set():
            message = self._consumer.poll(0.1)
            self.held = sorted((one.topic, one.partition) for one in self._consumer.assignment())
            if self._commits.is_set():
                self._consumer.commit(asynchronous=False)
                self._commits.clear()
            if message is None:
                continue
            if message.error() is None:
                self.values.append(message.value())
            elif message.error().code() != confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART:
                self.errors.append(str(message.error()))


Join = Callable[..., Member]


@pytest.fixture(autouse=True)
def needed(needs: Callable[[str], None]) -> None:
    needs(CONSUMER_PROTOCOL)


@pytest.fixture(scope="module")
def consumer_broker(storage: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningBroker]:
    """A broker whose members are soon missed."""
    if storage == EXTERNAL:
        pytest.skip("the scenarios need short sessions")
    with serving(storage, tmp_path_factory.mktemp("broker"), SESSION_MS, SETTINGS) as running:
        yield running


@pytest.fixture
def join(consumer_broker: RunningBroker) -> Iterator[Join]:
    with ExitStack() as stack:
        yield lambda group, *topics, **settings: stack.enter_context(
            Member(consumer_broker.bootstrap, group, list(topics), **settings)
        )


def produce(bootstrap: str, topic: str, partitions: int, count: int, start: int = 0) -> list[bytes]:
    producer = confluent_kafka.Producer({**connecting("confluent-kafka", bootstrap)})
    values = [b"%d" % number for number in range(start, start + count)]
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % partitions)
    assert producer.flush(20) == 0
    return values


def all_of(topic: str, count: int) -> list[tuple[str, int]]:
    return [(topic, partition) for partition in range(count)]


def shared(members: list[Member], wanted: list[tuple[str, int]]) -> bool:
    held = [member.held for member in members]
    counts = [len(one) for one in held]
    return sorted(one for each in held for one in each) == wanted and max(counts) - min(counts) <= 1


def test_members_share_the_partitions_and_read_everything_once(
    join: Join, consumer_broker: RunningBroker, name: Callable[[str], str]
) -> None:
    topic, group = name("topic"), name("group")
    create_topic(consumer_broker.bootstrap, topic, 4)
    members = [join(group, topic)]
    eventually(lambda: shared(members, all_of(topic, 4)), "the first member holds all 4 partitions")
    for count in (2, 3):
        members.append(join(group, topic))
        eventually(lambda: shared(members, all_of(topic, 4)), f"{count} members share 4 partitions")
    sent = produce(consumer_broker.bootstrap, topic, 4, 100)
    eventually(lambda: sum(len(one.values) for one in members) >= 100, "the members got 100 records")
    assert sorted(value for one in members for value in one.values) == sorted(sent)
    members.pop().leave()
    eventually(lambda: shared(members, all_of(topic, 4)), "the others share what a member left")
    assert not [error for one in members for error in one.errors]


def test_a_topics_new_partitions_are_read(
    join: Join, consumer_broker: RunningBroker, name: Callable[[str], str]
) -> None:
    topic = name("topic")
    create_topic(consumer_broker.bootstrap, topic, 1)
    member = join(name("group"), topic)
    eventually(lambda: member.held == all_of(topic, 1), "the member holds the partition")
    grow(consumer_broker.bootstrap, topic, 3)
    eventually(lambda: member.held == all_of(topic, 3), "the member holds the new ones too")


def grow(bootstrap: str, topic: str, count: int) -> None:
    from confluent_kafka.admin import AdminClient, NewPartitions

    admin = AdminClient({**connecting("confluent-kafka", bootstrap)})
    admin.create_partitions([NewPartitions(topic, count)])[topic].result(20)


def test_patterns_follow_the_topics(join: Join, consumer_broker: RunningBroker, name: Callable[[str], str]) -> None:
    prefix = name("pattern")
    create_topic(consumer_broker.bootstrap, f"{prefix}-a", 2)
    create_topic(consumer_broker.bootstrap, f"{prefix}x", 1)
    member = join(name("group"), f"^{prefix}-.*")
    eventually(lambda: member.held == all_of(f"{prefix}-a", 2), "the member holds the topic that matches")
    create_topic(consumer_broker.bootstrap, f"{prefix}-b", 1)
    wanted = [*all_of(f"{prefix}-a", 2), (f"{prefix}-b", 0)]
    eventually(lambda: member.held == wanted, "the member holds the topic that came later")


def test_a_static_member_keeps_its_partitions(
    join: Join, consumer_broker: RunningBroker, name: Callable[[str], str]
) -> None:
    topic, group = name("topic"), name("group")
    create_topic(consumer_broker.bootstrap, topic, 2)
    first, second = (join(group, topic, group_instance_id=instance) for instance in ("a", "b"))
    eventually(lambda: shared([first, second], all_of(topic, 2)), "two static members share the partitions")
    held, kept = first.held, second.held
    first.leave()
    again = join(group, topic, group_instance_id="a")
    eventually(lambda: again.held == held, "the member that comes back has the same partitions")
    assert second.held == kept
    again.leave()
    eventually(lambda: second.held == all_of(topic, 2), "the other one gets them after the session")


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_changes_its_protocol_member_by_member(
    join: Join, consumer_broker: RunningBroker, name: Callable[[str], str], strategy: str
) -> None:
    """Upgrade and downgrade, with members of both protocols meanwhile."""
    topic, group = name("topic"), name("group")
    create_topic(consumer_broker.bootstrap, topic, 4)
    classic = {
        "group_protocol": "classic",
        "partition_assignment_strategy": strategy,
        "session_timeout_ms": "3000",
        "heartbeat_interval_ms": "200",
    }
    old = [join(group, topic, **classic) for _ in range(2)]
    eventually(lambda: shared(old, all_of(topic, 4)), "two classic members share the partitions")
    new = join(group, topic)
    eventually(lambda: shared([*old, new], all_of(topic, 4)), "a member of the new protocol has its share")
    sent = produce(consumer_broker.bootstrap, topic, 4, 40)
    eventually(lambda: sum(len(one.values) for one in (*old, new)) >= 40, "the members got 40 records")
    assert sorted(value for one in (*old, new) for value in one.values) == sorted(sent)
    for one in old:
        one.commit()
    old.pop().leave()
    eventually(lambda: shared([*old, new], all_of(topic, 4)), "the two others share the partitions")
    old.append(join(group, topic, **classic))
    eventually(lambda: shared([*old, new], all_of(topic, 4)), "a classic member joins a group of the new protocol")
    new.leave()
    eventually(lambda: shared(old, all_of(topic, 4)), "the classic members go on alone")


def test_a_group_goes_on_after_a_restart(
    storage: str, tmp_path_factory: pytest.TempPathFactory, name: Callable[[str], str]
) -> None:
    if storage == EXTERNAL:
        pytest.skip("an external broker cannot be restarted")
    with serving(storage, tmp_path_factory.mktemp("restarted"), SESSION_MS, SETTINGS) as running:
        topic, group = name("topic"), name("group")
        create_topic(running.bootstrap, topic, 2)
        with Member(running.bootstrap, group, [topic]) as one, Member(running.bootstrap, group, [topic]) as two:
            eventually(lambda: shared([one, two], all_of(topic, 2)), "two members share the partitions")
            held = one.held, two.held
            produce(running.bootstrap, topic, 2, 20)
            eventually(lambda: len(one.values) + len(two.values) == 20, "the members have read 20 records")
            for member in (one, two):
                member.commit()
            running.restart()
            produce(running.bootstrap, topic, 2, 20, start=20)
            eventually(lambda: len(one.values) + len(two.values) >= 40, "they go on")
            assert (one.held, two.held) == held
            assert len(set(one.values + two.values)) == 40
        with Member(running.bootstrap, group, [topic]) as later:
            time.sleep(0.1)
            eventually(lambda: len(later.values) >= 20, "what was not committed comes again")
            assert len(later.values) == 20


def test_tools_describe_list_and_delete_the_group(
    join: Join, consumer_broker: RunningBroker, name: Callable[[str], str]
) -> None:
    from confluent_kafka.admin import AdminClient

    topic, group = name("topic"), name("group")
    create_topic(consumer_broker.bootstrap, topic, 2)
    member = join(group, topic)
    eventually(lambda: member.held == all_of(topic, 2), "the member holds the partitions")
    admin = AdminClient({**connecting("confluent-kafka", consumer_broker.bootstrap)})
    described = admin.describe_consumer_groups([group])[group].result(20)
    assert (described.state.name, described.type.name) == ("STABLE", "CONSUMER")
    (seen,) = described.members
    assert sorted((one.topic, one.partition) for one in seen.assignment.topic_partitions) == all_of(topic, 2)
    listed = {one.group_id: one for one in admin.list_consumer_groups().result(20).valid}
    assert listed[group].type.name == "CONSUMER"
    member.leave()
    admin.delete_consumer_groups([group])[group].result(20)
    assert group not in {one.group_id for one in admin.list_consumer_groups().result(20).valid}


def test_a_setting_of_a_group_reaches_its_members(consumer_broker: RunningBroker, name: Callable[[str], str]) -> None:
    from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    topic, groups = name("topic"), [name("group"), name("other")]
    create_topic(consumer_broker.bootstrap, topic, 1)
    admin = AdminClient({**connecting("confluent-kafka", consumer_broker.bootstrap)})
    entry = ConfigEntry("consumer.heartbeat.interval.ms", "700", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, groups[0], incremental_configs=[entry])
    for group in groups:
        committed(consumer_broker.bootstrap, group, [Place(topic, 0)])  # it has a coordinator now
    assert heartbeat_intervals(consumer_broker.bootstrap, topic, groups) == [200, 200]
    admin.incremental_alter_configs([resource])[resource].result(20)
    eventually(
        lambda: heartbeat_intervals(consumer_broker.bootstrap, topic, groups) == [700, 200],
        "the coordinator, which another broker may be, has the setting",
    )
    described = admin.describe_configs([ConfigResource(ResourceType.GROUP, groups[0])])
    (values,) = [future.result(20) for future in described.values()]
    assert values["consumer.heartbeat.interval.ms"].value == "700"


def heartbeat_intervals(bootstrap: str, topic: str, groups: list[str]) -> list[int]:
    """What each group's coordinator answers to one heartbeat of a member, in ms."""
    deadline = Deadline(20_000)
    given = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [topic], "topic_partitions": []}
    answers = {}
    for address in parse_addresses(bootstrap):
        connection = Connection(address, ClientOptions(bootstrap=bootstrap, security=own_security()), deadline)
        try:
            for group in groups:
                request = ConsumerGroupHeartbeatRequest(group_id=group, member_id="m", **given)
                answer = connection.call(HEARTBEAT, 1, request, deadline)
                if answer.error_code != NOT_COORDINATOR:
                    answers[group] = answer.heartbeat_interval_ms
        finally:
            connection.close()
    return [answers[group] for group in groups]
