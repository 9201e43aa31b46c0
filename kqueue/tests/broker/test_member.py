from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import sqlite3
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from kqueue.app import Server
from kqueue.base.errors import NodeIdInUse, SettingError, StorageFailed
from kqueue.broker.cluster.broker_removal import remove_broker
from kqueue.broker.cluster.registration import WrongCluster
from kqueue.broker.member import Member
from kqueue.broker.topics.topics import NewTopic
from kqueue.config.plugins import PluginObjects
from kqueue.config.properties import SourcedValue, make_config
from kqueue.metadata.memory import MemoryStore
from kqueue.replication.registrations import NO_LEADER
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.network.harness import until
from kqueue.tests.tables import for_each

FREE_PORT = "PLAINTEXT://127.0.0.1:0"


def server(node_id: int, store: MemoryStore | str, **settings: object) -> Server:
    """A member that is not started. `store`: an object, or what kqueue.cluster.store names."""
    objects = PluginObjects(cluster=None if isinstance(store, str) else store)
    values = {
        "node.id": node_id,
        "listeners": FREE_PORT,
        "kqueue.storage": "memory",
        "kqueue.cluster.store": store if isinstance(store, str) else "memory",
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 100,
    } | {name.replace("_", "."): value for name, value in settings.items()}
    config = make_config({name: SourcedValue(value, "test") for name, value in values.items()}, objects)
    return Server(config, objects=objects)


@contextlib.asynccontextmanager
async def serving(*servers: Server) -> AsyncIterator[None]:
    started: list[Server] = []
    try:
        for each in servers:
            await each.start()
            started.append(each)
        for each in servers:
            await each.ready()
        yield
    finally:
        for each in started:
            await each.stop()


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[MemoryStore | str]:
    if request.param == "sqlite":
        yield f"sqlite:{tmp_path / 'cluster.db'}"
    else:
        made = MemoryStore()
        yield made
        made.close()


def test_three_servers_elect_leaders_and_a_stopped_one_gives_its_leaderships_away(store: MemoryStore | str) -> None:
    async def test() -> None:
        servers = [server(number, store) for number in (1, 2, 3)]
        async with serving(*servers):
            first, second, third = servers
            assert len({each.broker.identity.cluster_id for each in servers}) == 1
            await until(lambda: all(len(each.broker.metadata.cluster.brokers()) == 3 for each in servers))
            await first.result(first.broker.topics.create(NewTopic("t", 6, 3)))
            await until(lambda: all(each.broker.topics.find("t") for each in servers))
            leaders = [partition.leader for partition in third.broker.topics.get("t").partitions]
            assert sorted(leaders) == [1, 1, 2, 2, 3, 3]
            assert all(len(partition.isr) == 3 for partition in second.broker.topics.get("t").partitions)
            await first.stop()
            for each in (second, third):
                partitions = each.broker.topics.get("t").partitions
                await until(lambda partitions=partitions: {one.leader for one in partitions} == {2, 3})
                await until(lambda each=each: each.broker.metadata.cluster.controller_id in (2, 3))
                await until(lambda each=each: [one.id for one in each.broker.metadata.cluster.brokers()] == [2, 3])
                assert all(sorted(one.isr) == [2, 3] for one in partitions)
            again = server(1, store)
            async with serving(again):
                partitions = again.broker.topics.get("t").partitions
                await until(lambda: {one.leader for one in partitions} == {2, 3})

    asyncio.run(test())


def test_an_orderly_stop_warns_nobody_and_the_store_is_asked_beside_the_loop(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        store = MemoryStore()
        servers = [server(number, store) for number in (1, 2, 3)]
        async with serving(*servers):
            first, second, _ = servers
            await until(lambda: all(len(each.broker.metadata.cluster.brokers()) == 3 for each in servers))
            await first.result(first.broker.topics.create(NewTopic("t", 3, 3)))
            await until(lambda: all(each.broker.topics.find("t") for each in servers))
            session = first.broker.member.registration.session  # type: ignore[union-attr]
            ended_on: list[threading.Thread] = []
            end = session.end
            session.end = lambda: (ended_on.append(threading.current_thread()), end())
            caplog.clear()
            await first.stop()
            await until(lambda: [one.id for one in second.broker.metadata.cluster.brokers()] == [2, 3])
            await asyncio.sleep(0.3)
            assert len(ended_on) == 1
            assert ended_on[0] is not threading.main_thread()
            assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
            caplog.clear()

    with caplog.at_level(logging.INFO):
        asyncio.run(test())


def test_a_second_server_of_the_node_id_does_not_start() -> None:
    async def test() -> None:
        store = MemoryStore()
        async with serving(server(1, store)):
            with pytest.raises(NodeIdInUse, match="node id 1 is in use"):
                await server(1, store).start()

    asyncio.run(test())


def test_a_server_that_did_not_start_leaves_its_node_id_free() -> None:
    async def test() -> None:
        store = MemoryStore()
        store.commit({}, {"/topics/t": b"{}"}, ())
        with pytest.raises(StorageFailed, match="/topics/t can't be read"):
            await server(1, store).start()
        assert store.sessions() == {}

    asyncio.run(test())


def test_a_folder_of_another_cluster_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    async def test() -> None:
        one, other = MemoryStore(), MemoryStore()
        place: dict[str, object] = {"kqueue_storage": "local", "log_dirs": str(tmp_path)}
        async with serving(server(1, one, **place)):
            pass
        async with serving(server(2, other)):
            pass
        before = (tmp_path / "meta.properties").read_bytes()
        with pytest.raises(WrongCluster, match=r"data folder .* belongs to cluster .*, and kqueue\.cluster\.store is"):
            await server(1, other, **place).start()
        assert (tmp_path / "meta.properties").read_bytes() == before
        async with serving(server(1, one, **place)):
            pass

    asyncio.run(test())


def test_a_clean_stop_is_known_at_the_next_start(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Rule 1; also without kqueue.flush=group. The mark names the broker epoch, as Kafka's does."""

    async def test() -> None:
        store = MemoryStore()
        place: dict[str, object] = {
            "kqueue_storage": "local", "log_dirs": str(tmp_path), "kqueue_flush": "kafka"
        }  # fmt: skip
        async with serving(server(1, store, **place)) as _, serving(keeper := server(2, store)):
            await keeper.result(keeper.broker.topics.create(NewTopic("t", 1, 2)))
        assert (tmp_path / ".kafka_cleanshutdown").read_bytes() == b'{"version":0,"brokerEpoch":1}'
        async with serving(server(1, store, **place)):
            assert "records that this broker confirmed may be missing" not in caplog.text
        (tmp_path / ".kafka_cleanshutdown").unlink()
        async with serving(server(1, store, **place)):
            assert "records that this broker confirmed may be missing" in caplog.text

    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        asyncio.run(test())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("sqlite:/no/such/folder/x.db", r"kqueue\.cluster\.store=sqlite:/no/such/folder/x\.db can't be used: .*check"),
        ("zookeeper:127.0.0.1:1", r"can't be used: .*reach ZooKeeper at 127\.0\.0\.1:1 .*check that"),
    ],
)
def test_a_store_that_can_not_be_reached_is_named_with_what_to_check(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        with pytest.raises(StorageFailed, match=words):
            await server(1, text).start()

    if text.startswith("zookeeper"):
        zookeeper = pytest.importorskip("kqueue.metadata.zookeeper")
        monkeypatch.setattr(zookeeper.ZookeeperStore.__init__, "__kwdefaults__", {"timeout_s": 0.2})
    asyncio.run(test())


def test_a_given_store_needs_the_setting_and_the_setting_a_store() -> None:
    async def test() -> None:
        with pytest.raises(SettingError, match="kqueue.cluster.store=memory goes with a store that the program passes"):
            await server(1, "memory").start()
        values = {"listeners": FREE_PORT, "kqueue.storage": "memory"}
        config = make_config({name: SourcedValue(value, "test") for name, value in values.items()})
        with pytest.raises(SettingError, match="goes with a store"):
            await Server(config, objects=PluginObjects(cluster=MemoryStore())).start()

    asyncio.run(test())


def test_a_member_leads_while_its_record_is_unfenced_and_of_its_session() -> None:
    """Rules 2 and 9: whatever a registration of the partition says."""
    members = Members(2)
    members.result(members[1].broker.topics.create(NewTopic("t", assignments={0: [1, 2]})))
    partition = members.partition(1)
    member = Member(members[1].broker, members.store, random.Random(0))
    member.controller.stop()
    member.begin()
    members.settle()
    assert partition.is_leader

    members.register(1, fenced=True)
    members.settle()
    assert not partition.is_leader
    members.write(lambda old: old._replace(leader_epoch=5))
    assert not partition.is_leader, "by one who does not know that it is fenced"
    members.register(1)
    members.settle()
    assert (partition.is_leader, partition.leader_epoch) == (True, 5)

    assert member.registration.session is not None
    member.registration.session.end()
    member.begin()
    members.settle()
    assert not partition.is_leader, "its record is that of the session before"
    members.register(1, epoch=2)
    members.settle()
    assert partition.is_leader


@pytest.mark.long
def test_members_outlive_a_tool_that_holds_the_lock_of_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """They serve on, and change nothing; then they register again where their session has ended."""
    path = tmp_path / "cluster.db"

    async def test() -> None:
        servers = [server(number, f"sqlite:{path}", broker_session_timeout_ms=1000) for number in (1, 2)]
        async with serving(*servers):
            first, second = servers
            await until(lambda: all(len(each.broker.metadata.cluster.brokers()) == 2 for each in servers))
            await first.result(first.broker.topics.create(NewTopic("t", assignments={0: [1, 2]})))
            await until(lambda: all(each.broker.topics.find("t") for each in servers))
            partition = first.broker.topics.partition("t", 0)
            with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as tool:
                tool.execute("BEGIN IMMEDIATE")
                await asyncio.sleep(2.5)
                append(partition, b"a")
                await until(lambda: partition.is_committed(1))
                assert [one.broker.member.is_unfenced for one in servers] == [True, True]  # type: ignore[union-attr]
                tool.execute("ROLLBACK")
            for each in servers:
                partition = each.broker.topics.partition("t", 0)
                await until(lambda partition=partition: partition.leader != -1 and len(partition.isr) == 2)
                assert each.broker.member is not None
                await until(lambda member=each.broker.member: member.is_unfenced)
            await until(lambda: any(one.broker.topics.partition("t", 0).is_leader for one in servers))
            assert second.broker.topics.partition("t", 0).log_end_offset == 1

    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        asyncio.run(test())
    assert sum("the session with the cluster was lost; registered again" in line for line in caplog.messages) >= 2


@for_each("enabled", [True, False])
def test_without_controlled_shutdown_nothing_is_waited_for(enabled: bool) -> None:
    members = Members(2, {"controlled.shutdown.enable": enabled})
    members.result(members[1].broker.topics.create(NewTopic("t", 2, 2)))
    member = Member(members[1].broker, members.store, random.Random(0))
    member.begin()
    assert member.leave().done is not enabled, "broker 2 is in sync too"
    member.stop()


def test_an_unregistered_broker_that_comes_back_empty_is_known_to_have_lost_records(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Rule 1. Without its record only the new data folder tells that records are missing."""

    async def test() -> None:
        store = MemoryStore()
        first, second = server(1, store), server(2, store)
        async with serving(first, second):
            await first.result(first.broker.topics.create(NewTopic("t", 1, 2)))
            await until(lambda: second.broker.topics.find("t"))
            # The creator may not have known yet that the other one is there.
            await until(lambda: set(second.broker.topics.partition("t", 0).isr) == {1, 2})
            await first.stop()
            partition = second.broker.topics.partition("t", 0)
            await until(lambda: partition.isr == (2,))
            append(partition, b"only here")
            await until(lambda: partition.high_watermark == 1)
        again = server(1, store)
        async with serving(again):
            remove_broker(2, again.broker.metadata.cache, again.broker.metadata.cluster)
            await until(lambda: again.broker.metadata.cluster.find(2) is None)
            assert again.broker.topics.partition("t", 0).leader == NO_LEADER
            async with serving(server(2, store)):
                await until(lambda: again.broker.topics.partition("t", 0).leader == 2)
            assert "in sync [] -> [2], unclean election: records that only" in caplog.text

    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        asyncio.run(test())
