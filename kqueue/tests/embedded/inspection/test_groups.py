from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from kafka import KafkaConsumer

import kqueue
from kqueue.app import Server
from kqueue.base.promise import Promise
from kqueue.embedded.inspection.groups import Group, Member
from kqueue.groups.share.member import ShareHeartbeat
from kqueue.groups.streams.member import StreamsHeartbeat
from kqueue.groups.streams.topology import Subtopology, Topology
from kqueue.share.share_state import SharePartitionKey, ShareUpdate
from kqueue.tests.waits import HangLimit, eventually


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders", 2)
        broker.topics["orders"].produce_all([b"%d" % number for number in range(3)], partition=0)
        broker.topics["orders"].produce_all([b"%d" % number for number in range(4)], partition=1)
        yield broker


@pytest.fixture
def consumer_of(broker: kqueue.Broker) -> Iterator[Callable[..., KafkaConsumer]]:
    opened: list[KafkaConsumer] = []

    def make(group: str, **options: object) -> KafkaConsumer:
        settings = {
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "consumer_timeout_ms": 20_000,
            **options,
        }
        opened.append(KafkaConsumer("orders", bootstrap_servers=broker.bootstrap, group_id=group, **settings))
        return opened[-1]

    yield make
    for consumer in opened:
        consumer.close()


def test_a_group_shows_its_members_and_how_far_they_are(
    broker: kqueue.Broker, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    assert (list(broker.groups), repr(broker.groups)) == ([], "<groups: none>")
    consumer = consumer_of("mail", client_id="mailer", group_instance_id="one")
    for _ in range(7):
        next(consumer)
    before = broker.groups["mail"]
    assert (before.state, before.offsets, before.lag, before.total_lag) == ("Stable", {}, {}, 0)
    (member,) = before.members
    assert (member.client_id, member.host, member.instance_id) == ("mailer", "127.0.0.1", "one")
    assert member.assignment == {"orders": (0, 1)}
    assert repr(member) == "<member mailer at 127.0.0.1: orders-0,1>"
    assert repr(before) == "<group mail: Stable, 1 member; nothing committed>"
    consumer.commit()
    broker.topics["orders"].produce("more", partition=1)
    after = broker.groups["mail"]
    assert after.offsets == {"orders": {0: 3, 1: 4}}
    assert after.lag == {"orders": {0: 0, 1: 1}}
    assert after.total_lag == 1
    assert after.assignor in ("range", "roundrobin", "sticky", "cooperative-sticky")
    assert repr(after) == "<group mail: Stable, 1 member; orders-0 at 3 (lag 0), orders-1 at 4 (lag 1)>"
    assert before.offsets == {}  # as it was when it was taken
    assert (list(broker.groups), len(broker.groups), "mail" in broker.groups) == (["mail"], 1, True)


def test_members_come_and_go(broker: kqueue.Broker, consumer_of: Callable[..., KafkaConsumer]) -> None:
    consumer = consumer_of("mail")
    next(consumer)
    consumer.commit()
    consumer.close()
    eventually(lambda: broker.groups["mail"].state == "Empty")
    group = broker.groups["mail"]
    assert (group.members, group.assignor) == ((), None)
    assert group.offsets["orders"] in ({0: 1, 1: 0}, {0: 0, 1: 1}, {0: 1}, {1: 1})


def test_offsets_of_a_topic_that_is_gone_are_gone(
    broker: kqueue.Broker, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    consumer = consumer_of("mail")
    next(consumer)
    consumer.commit()
    broker.topics["orders"].delete()
    eventually(lambda: not broker.groups["mail"].offsets)
    assert broker.groups["mail"].lag == {}


def test_aiokafkas_groups_are_shown_too(broker: kqueue.Broker) -> None:
    async def test() -> None:
        options = {"group_id": "mail", "enable_auto_commit": False, "heartbeat_interval_ms": 100}
        two = [
            AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap, client_id=f"c{n}", **options)
            for n in range(2)
        ]
        try:
            async with asyncio.timeout(60):
                for one in two:
                    await one.start()
                while [len(one.assignment()) for one in two] != [1, 1]:
                    await asyncio.sleep(0.01)
            group = await asyncio.to_thread(lambda: broker.groups["mail"])
            assert sorted(one.client_id for one in group.members) == ["c0", "c1"]
            assigned = {one.client_id: one.assignment for one in group.members}
            for number, one in enumerate(two):
                (place,) = one.assignment()
                assert assigned[f"c{number}"] == {"orders": (place.partition,)}
            (place,) = two[0].assignment()
            await two[0].commit({TopicPartition("orders", place.partition): 2})
            assert broker.groups["mail"].offsets == {"orders": {place.partition: 2}}
        finally:
            for one in two:
                await one.stop()

    asyncio.run(test())


def test_streams_groups_show_what_their_active_tasks_read() -> None:
    topology = Topology(0, (Subtopology("0", ("orders",)),))
    joining = StreamsHeartbeat(
        "app", "m", 0, rebalance_timeout_ms=1000, topology=topology, active={}, standby={}, warmup={}, client_id="c"
    )
    with kqueue.Broker(settings={"group.streams.initial.rebalance.delay.ms": 0}) as broker:
        broker.create_topic("orders", 2)

        async def join() -> None:
            broker._server.broker.coordinators.groups.streams.heartbeat(joining)

        limit = HangLimit("a stable group")
        while "app" not in broker.groups or broker.groups["app"].state != "Stable":
            broker._call(join)
            limit.check()
        group = broker.groups["app"]
        assert group.assignor is None
        (member,) = group.members
        assert (member.client_id, member.assignment) == ("c", {"orders": (0, 1)})


def join_share_group(broker: kqueue.Broker) -> None:
    """Let a member join the share group "workers", and return once it is assigned "orders"."""
    joining = ShareHeartbeat("workers", "m", 0, topics=["orders"], client_id="worker", client_host="/10.0.0.1")

    async def join(server: Server) -> bool:
        await server.result(server.broker.coordinators.groups.share.heartbeat(joining))
        group = server.broker.coordinators.groups.share.find("workers")
        return group is not None and bool(group.members["m"].current.assigned)

    eventually(lambda: broker._ask(join))


def test_every_group_that_is_listed_can_be_looked_at(
    broker: kqueue.Broker, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    join_share_group(broker)
    streams = StreamsHeartbeat("app", "m", 0, rebalance_timeout_ms=1000, topology=Topology(0, ()), active={},
                               standby={}, warmup={})  # fmt: skip

    async def join(server: Server) -> None:
        await server.result(server.broker.coordinators.groups.streams.heartbeat(streams))

    broker._ask(join)
    next(consumer_of("mail"))
    groups = dict(broker.groups)
    assert {name: group.type for name, group in groups.items()} == {
        "app": "streams",
        "mail": "classic",
        "workers": "share",
    }
    workers = groups["workers"]
    assert (workers.state, workers.assignor) == ("Stable", None)
    assert [(one.client_id, one.host, one.assignment) for one in workers.members] == [
        ("worker", "10.0.0.1", {"orders": (0, 1)})
    ]
    with pytest.raises(KeyError, match="did you mean 'workers'"):
        broker.groups["worker"]


def test_a_share_group_has_start_offsets_and_lag(broker: kqueue.Broker) -> None:
    async def write(server: Server) -> None:
        for index, update in enumerate((ShareUpdate(2, (), 0), ShareUpdate(0, (), 1))):
            written: Promise[None] = Promise()

            def done(error: Exception | None, written: Promise[None] = written) -> None:
                written.resolve(None) if error is None else written.fail(error)
                server.broker.scheduler.purgatory.wake(written)

            key = SharePartitionKey("workers", server.broker.topics.get("orders").id, index)
            state = await server.result(server.broker.share.summary(key))
            assert state is not None
            server.broker.share.states.write(key, state.state_epoch, 0, update, done)
            await server.result(written)

    join_share_group(broker)
    assert broker.groups["workers"].offsets == {}  # nothing was fetched yet
    broker._ask(write)
    workers = broker.groups["workers"]
    assert workers.offsets == {"orders": {0: 2, 1: 0}}
    assert workers.lag == {"orders": {0: 1, 1: 3}}
    with pytest.raises(AssertionError, match=r"has consumed 2 of 7 records of orders: partition 0 at 2 of 3, .*Stable"):
        broker.assert_consumed("orders", group="workers")
    broker.assert_consumed("orders", group="workers", upto={0: 2})


def test_a_wrong_name_is_answered_with_the_nearest_right_one(
    broker: kqueue.Broker, consumer_of: Callable[..., KafkaConsumer]
) -> None:
    next(consumer_of("mail"))
    with pytest.raises(KeyError) as caught:
        broker.groups["mial"]
    assert str(caught.value) == "there is no group 'mial'; did you mean 'mail'?"


def test_groups_have_words_for_people() -> None:
    member = Member("m", "c", "10.0.0.1", None, {})
    group = Group("g", "PreparingRebalance", None, (member, member), {"gone": {0: 5}, "t": {2: 1}}, {"t": {2: 3}})
    assert repr(group) == "<group g: PreparingRebalance, 2 members; gone-0 at 5, t-2 at 1 (lag 3)>"
    assert repr(member) == "<member c at 10.0.0.1: nothing assigned>"
