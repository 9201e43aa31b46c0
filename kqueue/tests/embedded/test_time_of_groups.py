"""Effects of `advance` on consumer groups, as stock clients see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

import kqueue
from kqueue.base.errors import GroupIdNotFound
from kqueue.groups.classic.group import GroupDescription
from kqueue.groups.classic.state import ClassicGroupState
from kqueue.tests.embedded.clients import KINDS, Clients, clients
from kqueue.tests.waits import eventually

Opened = Callable[..., Clients]
STATIC = {"group_instance_id": "one", "session_timeout_ms": 45_000, "heartbeat_interval_ms": 15_000}


@pytest.fixture(params=sorted(KINDS))
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    """A broker with these settings, and the clients of one library."""
    with ExitStack() as stack:

        def open_(**settings: Any) -> Clients:
            client = stack.enter_context(clients(request.param, stack.enter_context(kqueue.Broker(**settings))))
            client.broker.create_topic("t", retention_ms=-1)
            return client

        yield open_


def described(client: Clients, group: str = "g") -> GroupDescription | None:
    """Return the broker's view of the group, or None if it does not exist."""

    async def describe() -> GroupDescription | None:
        try:
            return client.broker._server.broker.coordinators.groups.describe(group)
        except GroupIdNotFound:
            return None

    return client.broker._call(describe)


def members(client: Clients) -> list[str | None]:
    group = described(client)
    return [] if group is None else [member.instance_id for member in group.members]


def until_stable(client: Clients, than: str = "") -> str:
    """Wait until the only member has its partitions and an id other than `than`; return the id."""
    ids: list[str] = []

    def is_stable() -> bool:
        group = described(client)
        ids[:] = [member.member_id for member in group.members] if group is not None else []
        return group is not None and group.state is ClassicGroupState.STABLE and ids != [than]

    eventually(is_stable, "a stable group")
    return ids[0]


def until_committed(client: Clients, offset: int) -> None:
    async def is_there() -> bool:
        committed = client.broker._server.broker.coordinators.groups.offsets("g").get("t", {}).get(0)
        return committed is not None and committed.offset == offset

    eventually(lambda: client.broker._call(is_there), "the commit")


def test_dead_member_is_removed_after_its_session_timeout(opened: Opened) -> None:
    client = opened()
    client.send("t", b"a", b"b")
    died = client.consumer("t", group_id="g", **STATIC)
    assert died.take(2) == [b"a", b"b"]
    died.close()  # a static member sends no LeaveGroup
    assert members(client) == ["one"]
    client.broker.clock.advance(seconds=44)
    assert members(client) == ["one"]
    client.broker.clock.advance(seconds=2)
    assert members(client) == []


def test_waiting_member_gets_the_partitions_of_a_dead_member(opened: Opened) -> None:
    """The rebalance ends when members that did not rejoin are removed.

    That is at the session timeout, or at the rebalance timeout at the latest.
    """
    client = opened()
    client.send("t", b"a")
    died = client.consumer("t", group_id="g", **STATIC)
    assert died.take(1) == [b"a"]
    died.close()
    heir = client.soon(client.consumer("t", group_id="g").take, 1)
    eventually(lambda: len(members(client)) == 2, "the heir's join")
    assert not heir.done()
    client.broker.clock.advance(minutes=6)
    assert heir.result(60) == [b"a"]


def test_live_member_rejoins_and_loses_nothing(opened: Opened) -> None:
    client = opened()
    quick = {"heartbeat_interval_ms": 50, "enable_auto_commit": True, "auto_commit_interval_ms": 50}
    taken = client.soon(client.consumer("t", group_id="g", **quick).take_to, b"end")
    old = until_stable(client)
    for number in range(1, 4):
        client.broker.clock.advance(hours=1)
        old = until_stable(client, than=old)
        client.send("t", b"%d" % number)
        until_committed(client, number)
    client.send("t", b"end")
    assert list(dict.fromkeys(taken.result(60))) == [b"1", b"2", b"3", b"end"]


def test_first_rebalance_waits_for_more_members(opened: Opened) -> None:
    client = opened(group_initial_rebalance_delay_ms=120_000)
    client.send("t", b"a")
    taken = client.soon(client.consumer("t", group_id="g").take, 1)
    eventually(
        lambda: (group := described(client)) and group.state is ClassicGroupState.PREPARING_REBALANCE and group.members,
        "the join",
    )
    client.broker.clock.advance(seconds=119)
    assert not taken.done()
    group = described(client)
    assert group is not None
    assert group.state is ClassicGroupState.PREPARING_REBALANCE
    client.broker.clock.advance(seconds=2)
    assert taken.result(60) == [b"a"]


def test_committed_offsets_of_an_empty_group_expire(opened: Opened) -> None:
    """The session ends 45 s after the last heartbeat; the retention of 7 days starts then."""
    client = opened()
    client.send("t", b"a", b"b")
    first = client.consumer("t", group_id="g", **STATIC)
    assert first.take(2) == [b"a", b"b"]
    first.commit()
    first.close()
    client.broker.clock.advance(days=7)
    assert client.consumer(group_id="g").committed("t") == 2
    client.broker.clock.advance(minutes=12)  # the 45 seconds, and the interval of the expiry checks
    assert client.consumer(group_id="g").committed("t") is None
    assert described(client) is None


def test_offsets_of_a_used_group_survive_and_expire_after_a_long_advance(
    opened: Opened,
) -> None:
    client = opened(offsets_retention_minutes=60)
    client.send("t", b"a")
    consumer = client.consumer("t", group_id="g")
    assert consumer.take(1) == [b"a"]
    consumer.commit()
    consumer.close()
    client.broker.clock.advance(minutes=55)
    assert client.consumer(group_id="g").committed("t") == 1
    client.broker.clock.advance(days=8)
    assert client.consumer(group_id="g").committed("t") is None
