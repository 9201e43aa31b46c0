"""Consumer groups: joining, leaving, failure, commits, static members and assignors."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from compat_tests.clients.adapters.contract import STATIC_MEMBERS, Client, ConsumerOptions, Place, Record
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.group_members import ConsumerProcess, ConsumerThread
from compat_tests.clients.scenario_helpers import collect, nothing_more, numbered, send_all
from compat_tests.waits import HangLimit, eventually

Topic = Callable[..., str]
Name = Callable[[str], str]
Join = Callable[..., ConsumerThread]


def places(topic: str, count: int) -> set[Place]:
    return {Place(topic, partition) for partition in range(count)}


def shared(members: list[ConsumerThread], all_places: set[Place]) -> bool:
    """Assert that every partition has one owner and the assignment is balanced."""
    held = [place for member in members for place in member.held]
    share = -(-len(all_places) // len(members))
    return sorted(held) == sorted(all_places) and all(len(member.held) <= share for member in members)


@pytest.fixture
def join(client: Client, broker: RunningBroker) -> Iterator[Join]:
    """Return a function that starts a member thread; all members leave at the end of the test."""
    with ExitStack() as stack:

        def start(topics: str | list[str], group: str, *, commit: bool = False, **options: Any) -> ConsumerThread:
            chosen = ConsumerOptions(group=group, **{"session_ms": broker.session_ms, **options})
            listed = [topics] if isinstance(topics, str) else topics
            return stack.enter_context(ConsumerThread(client, broker.bootstrap, listed, chosen, commit=commit))

        yield start


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_partitions_are_balanced_over_members(
    count: int, join: Join, connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    chosen = topic(partitions=4)
    group = name("group")
    members = [join(chosen, group) for _ in range(count)]
    eventually(lambda: shared(members, places(chosen, 4)), f"{count} members hold 4 partitions, each partition once")
    producer = connect.producer(broker.bootstrap)
    for partition in range(4):
        send_all(producer, chosen, numbered(25, f"p{partition}"), partition=partition)
    eventually(lambda: sum(len(member.records) for member in members) >= 100, "the members got 100 records")
    assert sorted((record.place.partition, record.offset) for member in members for record in member.records) == [
        (partition, offset) for partition in range(4) for offset in range(25)
    ]
    for member in members:
        assert {record.place for record in member.records} == member.held


def test_rebalance_on_join_and_leave(
    join: Join, connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    chosen = topic(partitions=4)
    group = name("group")
    first = join(chosen, group, commit=True)
    eventually(lambda: first.held == places(chosen, 4), "the first member holds all")
    second = join(chosen, group, commit=True)
    eventually(lambda: shared([first, second], places(chosen, 4)), "two members share")
    third = join(chosen, group, commit=True)
    eventually(lambda: shared([first, second, third], places(chosen, 4)), "three members share")
    second.leave()
    eventually(lambda: shared([first, third], places(chosen, 4)), "the two that stay share")
    first.leave()
    eventually(lambda: third.held == places(chosen, 4), "the last member holds all")
    send_all(connect.producer(broker.bootstrap), chosen, numbered(40))
    eventually(lambda: len(third.records) == 40, "the last member got 40 records")


def test_leave_reassigns_partitions_immediately(join: Join, topic: Topic, name: Name) -> None:
    """A leaving member's partitions are reassigned before its long session times out, which older
    versions of kafka-python want below 30 s.
    """
    chosen = topic(partitions=2)
    group = name("group")
    members = [join(chosen, group, session_ms=28_000) for _ in range(2)]
    eventually(lambda: shared(members, places(chosen, 2)), "two members share", 60)
    members[0].leave()
    eventually(lambda: members[1].held == places(chosen, 2), "the other holds all", 20)


@pytest.mark.long
def test_killed_member_is_removed_after_session_timeout(
    client: Client, join: Join, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    chosen = topic(partitions=4)
    group = name("group")
    member = join(chosen, group)
    eventually(lambda: member.held == places(chosen, 4), "the member holds all")
    with ConsumerProcess(client.name, broker.bootstrap, chosen, group, broker.session_ms) as mortal:
        eventually(lambda: len(mortal.held) == 2 and len(member.held) == 2, "both share")
        mortal.kill()
        killed = time.monotonic()
        eventually(lambda: member.held == places(chosen, 4), "the survivor holds all")
        assert time.monotonic() - killed > broker.session_ms / 1000 / 2, (
            "the dead member was gone before its session could have ended"
        )


@pytest.mark.long
def test_heartbeats_keep_idle_member_in_group(
    join: Join, connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    chosen = topic(partitions=2)
    group = name("group")
    idle = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms)
    eventually(lambda: idle.poll(0.1) == [] and idle.assignment() == places(chosen, 2), "the member holds all")
    time.sleep(1.3 * broker.session_ms / 1000)
    send_all(connect.producer(broker.bootstrap), chosen, numbered(20))
    collect(idle, 20)
    idle.commit()
    assert sum(idle.committed(place) or 0 for place in places(chosen, 2)) == 20


def test_manual_commits(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    chosen = topic()
    group = name("group")
    place = Place(chosen, 0)
    send_all(connect.producer(broker.bootstrap), chosen, numbered(100))
    first = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms, poll_records_max=10)
    assert first.committed(place) is None
    first_records: list[Record] = []
    limit = HangLimit("30 records")
    while len(first_records) < 30:
        limit.check(len(first_records))
        first_records += first.poll(0.2)
    first.commit({place: 30})
    assert first.committed(place) == 30
    first.close()
    second = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms)
    records = collect(second, 70)
    assert [record.value for record in records] == numbered(100)[30:]
    second.commit()
    assert second.committed(place) == 100
    second.close()
    third = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms)
    nothing_more(third, 1.5)
    assert third.committed(place) == 100


def test_uncommitted_records_are_redelivered(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    chosen = topic()
    group = name("group")
    send_all(connect.producer(broker.bootstrap), chosen, numbered(10))
    for _ in range(2):
        consumer = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms)
        assert [record.value for record in collect(consumer, 10)] == numbered(10)
        consumer.close()


def test_commits_without_subscription(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    chosen = topic(partitions=3)
    group = name("group")
    consumer = connect.consumer(broker.bootstrap, assign=sorted(places(chosen, 3)), group=group)
    for round_number in range(3):
        consumer.commit({place: 10 * round_number + place.partition for place in places(chosen, 3)})
        for place in places(chosen, 3):
            assert consumer.committed(place) == 10 * round_number + place.partition
    other = connect.consumer(broker.bootstrap, assign=[Place(chosen, 2)], group=group)
    assert other.committed(Place(chosen, 2)) == 22


def test_automatic_commits(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    """S4.5"""
    chosen = topic()
    group = name("group")
    place = Place(chosen, 0)
    send_all(connect.producer(broker.bootstrap), chosen, numbered(50))
    first = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms, auto_commit_ms=200)
    collect(first, 50)
    watcher = connect.consumer(broker.bootstrap, assign=[place], group=group)
    eventually(lambda: first.poll(0.1) == [] and watcher.committed(place) == 50, "the automatic commit of offset 50")
    first.close()
    second = connect.consumer(
        broker.bootstrap, chosen, group=group, session_ms=broker.session_ms, auto_commit_ms=60_000
    )
    send_all(connect.producer(broker.bootstrap), chosen, numbered(5, "more"))
    assert [record.value for record in collect(second, 5)] == numbered(5, "more")
    second.close()  # commits on close although the interval has not elapsed
    third = connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms)
    nothing_more(third, 1.5)
    assert third.committed(place) == 55


def test_every_group_receives_all_records(
    connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name
) -> None:
    chosen = topic(partitions=2)
    groups = [name("group") for _ in range(3)]
    consumers = [
        connect.consumer(broker.bootstrap, chosen, group=group, session_ms=broker.session_ms) for group in groups
    ]
    producer = connect.producer(broker.bootstrap)
    for partition in (0, 1):
        send_all(producer, chosen, numbered(10), partition=partition)
    for consumer in consumers:
        assert sorted(record.value or b"" for record in collect(consumer, 20)) == sorted(2 * numbered(10))


def test_members_subscribed_to_several_topics(join: Join, topic: Topic, name: Name) -> None:
    topics = [topic(partitions=3), topic(partitions=2)]
    group = name("group")
    members = [join(topics, group) for _ in range(2)]
    everything = places(topics[0], 3) | places(topics[1], 2)
    eventually(lambda: shared(members, everything) or _halves(members, everything), "both topics are shared")


def _halves(members: list[ConsumerThread], everything: set[Place]) -> bool:
    """The range assignor assigns each topic separately.

    One member may therefore own one partition more of each topic.
    """
    held = [place for member in members for place in member.held]
    return sorted(held) == sorted(everything) and all(member.held for member in members)


def test_members_with_different_subscriptions(join: Join, topic: Topic, name: Name) -> None:
    topics = [topic(partitions=2), topic(partitions=2)]
    group = name("group")
    members = [join(chosen, group) for chosen in topics]
    eventually(
        lambda: [member.held for member in members] == [places(chosen, 2) for chosen in topics],
        "each holds its own topic",
    )


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_assignor(assignor: str, client: Client, join: Join, topic: Topic, name: Name) -> None:
    if assignor not in client.assignors:
        pytest.skip(f"{client.name} {client.version} has no assignor {assignor}")
    chosen = topic(partitions=6)
    group = name("group")
    members = [join(chosen, group, assignor=assignor, commit=True) for _ in range(2)]
    eventually(lambda: shared(members, places(chosen, 6)), "two members share")
    members.append(join(chosen, group, assignor=assignor, commit=True))
    eventually(lambda: shared(members, places(chosen, 6)), "three members share")
    members.pop(0).leave()
    eventually(lambda: shared(members, places(chosen, 6)), "two members share again")


def test_static_member_rejoins_without_rebalance(
    join: Join, topic: Topic, name: Name, needs: Callable[[str], None]
) -> None:
    needs(STATIC_MEMBERS)
    chosen = topic(partitions=4)
    group = name("group")
    stays = join(chosen, group, instance_id="stays", session_ms=20_000)
    goes = join(chosen, group, instance_id="goes", session_ms=20_000)
    eventually(lambda: shared([stays, goes], places(chosen, 4)), "both share", 60)
    before, history = goes.held, list(stays.history)
    goes.leave()
    back = join(chosen, group, instance_id="goes", session_ms=20_000)
    eventually(lambda: back.held == before, "the one that came back holds what it held")
    assert stays.history == history, "the one that stayed was rebalanced"


def test_member_changes_subscription(connect: ClientFactory, broker: RunningBroker, topic: Topic, name: Name) -> None:
    old, new = topic(), topic()
    consumer = connect.consumer(broker.bootstrap, old, group=name("group"), session_ms=broker.session_ms)
    producer = connect.producer(broker.bootstrap)
    send_all(producer, old, numbered(3, "old"))
    assert [record.value for record in collect(consumer, 3)] == numbered(3, "old")
    consumer.subscribe([new])
    send_all(producer, new, numbered(3, "new"))
    assert [record.value for record in collect(consumer, 3)] == numbered(3, "new")
