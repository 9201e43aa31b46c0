from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.client import ClientOptions
from kqueue.client.routing import Router
from kqueue.tests.client.group_member import SETTINGS, Member, RawCall
from kqueue.wire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)

Kq = Callable[..., Result]
LEAVE = -1


def altered_to(start_offset: int) -> RawCall:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start_offset)
    topic = AlterShareGroupOffsetsRequestTopic(topic_name="orders", partitions=[partition])
    return RawCall("alter_share_group_offsets", 0, AlterShareGroupOffsetsRequest(group_id="share", topics=[topic]))


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(settings=SETTINGS) as broker:
        broker.create_topic("orders", 2)
        broker.topics["orders"].produce_all(["a", "b", "c"], partition=0)
        yield broker


@pytest.fixture
def kq(broker: kqueue.Broker) -> Kq:
    return lambda *args: CliRunner().invoke(root, args, env={"KQUEUE_BOOTSTRAP": broker.bootstrap})


@pytest.fixture
def join(broker: kqueue.Broker) -> Iterator[Callable[[str], Member]]:
    router = Router(ClientOptions(bootstrap=broker.bootstrap, client_id="watcher"))
    yield lambda type: Member(router, type)
    router.close()


def tables(result: Result) -> list[list[list[str]]]:
    assert result.exit_code == 0, result.output
    return [[line.split() for line in table.splitlines()] for table in result.stdout.split("\n\n")]


def described(kq: Kq, name: str) -> Any:
    (group,) = json.loads(kq("groups", "describe", name, "-o", "json").stdout)
    return group


def reset(kq: Kq, group: str) -> Result:
    return kq("groups", "reset-offsets", group, "--topic", "orders:0", "--to-offset", "1", "--execute")


def test_the_type_is_listed(kq: Kq, join: Callable[[str], Member]) -> None:
    for type in ("share", "consumer", "streams"):
        join(type)
    ((head, *rows),) = tables(kq("groups", "list"))
    assert head == ["GROUP", "TYPE", "STATE", "LAG"]
    assert [row[:2] for row in rows] == [[type] * 2 for type in ("consumer", "share", "streams")]


def test_a_consumer_group(kq: Kq, join: Callable[[str], Member]) -> None:
    member = join("consumer")
    groups, offsets, members = tables(kq("groups", "describe", "consumer"))
    epoch = groups[1][3]
    assert groups[1] == ["consumer", "consumer", "Stable", epoch, epoch, "uniform", "1"]
    assert [row[3:6] for row in offsets[1:]] == [["-", "3", "-"], ["-", "0", "-"]]
    assert {(row[6], row[8]) for row in offsets[1:]} == {(member.member_id, "watcher")}
    assert members[1][0] == member.member_id
    assert members[1][2:] == ["watcher", epoch, "orders-0,orders-1"]
    assert "has members" in reset(kq, "consumer").stderr
    member.beat(LEAVE)
    assert reset(kq, "consumer").exit_code == 0
    group = described(kq, "consumer")
    assert (group["type"], group["state"], group["members"]) == ("consumer", "Empty", [])
    assert [(row["committed"], row["end"], row["lag"]) for row in group["partitions"]] == [(1, 3, 2)]


def test_a_share_group(kq: Kq, join: Callable[[str], Member]) -> None:
    member = join("share")
    member.wait_for_partitions(2)
    groups, offsets, members = tables(kq("groups", "describe", "share"))
    assert groups[1][:3] == ["share", "share", "Stable"]
    assert offsets[0] == ["GROUP", "TOPIC", "PARTITION", "START-OFFSET", "LAG"]
    assert [row[:3] for row in offsets[1:]] == [["share", "orders", "0"], ["share", "orders", "1"]]
    assert (members[1][0], members[1][4]) == (member.member_id, "orders-0,orders-1")
    assignment = described(kq, "share")["members"][0]["assignment"]
    assert assignment == [{"topic": "orders", "partition": index} for index in (0, 1)]
    member.beat(LEAVE)
    member.send(altered_to(1))
    first, second = described(kq, "share")["partitions"]
    assert first == {"topic": "orders", "partition": 0, "start_offset": 1, "lag": 2}
    assert second == {"topic": "orders", "partition": 1, "start_offset": None, "lag": None}


def test_a_streams_group(kq: Kq, join: Callable[[str], Member]) -> None:
    member = join("streams")
    groups, offsets, members = tables(kq("groups", "describe", "streams"))
    assert groups[1][:3] == ["streams", "streams", "Stable"]
    assert [row[1:7] for row in offsets[1:]] == [
        ["orders", "0", "-", "3", "-", member.member_id],
        ["orders", "1", "-", "0", "-", member.member_id],
    ]
    assert members[1][4:] == ["0_0,0_1", "-", "-"]
    join("share").wait_for_partitions(2)
    assert len(tables(kq("groups", "describe", "streams", "share"))) == 6
    assert described(kq, "streams")["members"][0]["active_tasks"] == ["0_0", "0_1"]
    assert "has members" in reset(kq, "streams").stderr


@pytest.mark.parametrize("type", ["consumer", "share", "streams"])
def test_groups_are_deleted_without_members_only(kq: Kq, join: Callable[[str], Member], type: str) -> None:
    member = join(type)
    assert kq("groups", "delete", type).stderr == f"Error: {type}: the group has members; stop its consumers first\n"
    member.beat(LEAVE)
    assert kq("groups", "delete", type).stdout == f"Deleted group {type}.\n"
    assert "there is no group" in kq("groups", "describe", type).stderr


def test_start_offsets_of_a_share_group_are_reset_and_deleted(kq: Kq, join: Callable[[str], Member]) -> None:
    member = join("share")
    refused = kq("groups", "reset-offsets", "share", "--topic", "orders", "--to-latest", "--execute")
    assert "the group 'share' has members" in refused.stderr
    member.beat(LEAVE)
    dry = kq("groups", "reset-offsets", "share", "--topic", "orders", "--to-latest")
    assert (dry.exit_code, "dry run" in dry.stderr) == (0, True)
    done = kq("groups", "reset-offsets", "share", "--topic", "orders:0", "--to-offset", "2", "--execute", "--json")
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert [(row["partition"], row["new"], row["executed"]) for row in json.loads(done.stdout)] == [(0, 2, True)]
    rows = {row["partition"]: row for row in described(kq, "share")["partitions"]}
    assert (rows[0]["start_offset"], rows[0]["lag"]) == (2, 1)
    shifted = kq("groups", "reset-offsets", "share", "--all-topics", "--shift-by", "-1", "--json")
    assert [(row["current"], row["new"]) for row in json.loads(shifted.stdout) if row["partition"] == 0] == [(2, 1)]
    assert kq("groups", "delete-offsets", "share", "--topic", "orders:0").exit_code == 2
    assert kq("groups", "delete-offsets", "share", "--topic", "orders").stdout == (
        "Deleted the start offsets of orders.\n"
    )
