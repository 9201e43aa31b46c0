"""A broker leaves the replicas whose logs have failed to the others, and keeps the rest."""

from __future__ import annotations

import logging
import random

import pytest

from kqueue.base.errors import NotLeader
from kqueue.broker.member import Member
from kqueue.broker.topics.topics import NewTopic
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.broker.members import Members
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import fetch, replicate


class World:
    """Three brokers, nobody controls; the disk of `node` may fail."""

    def __init__(self, node: int = 1, min_isr: int = 1) -> None:
        self.storage = FaultyStorage()
        self.members = Members(3, storages={node: self.storage})
        self.broker = self.members[node].broker
        self.member = Member(self.broker, self.members.store, random.Random(0))
        self.member.controller.stop()
        self.members.register(node, fenced=True)
        self.member.begin()
        assert self.member.registration.session is not None
        self.members.register(node, epoch=self.member.registration.session.epoch)
        self.settle()
        configs = {"min.insync.replicas": str(min_isr)}
        for name, replicas in (("t", [1, 2, 3]), ("u", [1, 2, 3]), ("own", [node])):
            self.members.result(
                self.members[2].broker.topics.create(NewTopic(name, assignments={0: replicas}, configs=configs))
            )
        append(self.members.partition(1), b"a")
        replicate(self.members, 2, 3)

    def settle(self) -> None:
        self.members.settle()
        while self.broker.scheduler.timers.run_due(self.members.clock.monotonic_ms()):
            self.members.settle()

    def advance(self, ms: int) -> None:
        for _ in range(ms // 500):
            self.members.clock.advance(500)
            self.settle()

    def break_log(self, *names: str) -> None:
        self.storage.fail("sync", lambda path: path.startswith(tuple(f"{name}-0/" for name in names)))


def test_leadership_of_a_failed_log_moves_to_another_broker(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.break_log("t")
    append(world.members.partition(1), b"lost")
    with caplog.at_level(logging.WARNING, "kqueue.broker"):
        world.settle()
    now = world.members.registration().partitions[0]
    assert (now.leader, now.isr, now.elr, now.leader_epoch) == (2, (2, 3), (), 1)
    lines = [record.getMessage() for record in caplog.records if record.name == "kqueue.broker"]
    assert lines == ["1 partition with a failed log here are left to other brokers"]
    with pytest.raises(NotLeader):
        append(world.members.partition(1), b"b")
    append(world.members.partition(2), b"b")
    assert world.members.partition(2).log_end_offset == 2
    assert world.members.registration("u").partitions[0].leader == 1, "its log is whole"


def test_a_failed_log_of_a_follower_is_in_sync_no_more() -> None:
    world = World(node=2)
    world.break_log("t")
    append(world.members.partition(1), b"b")
    fetch(world.members, 2)
    world.settle()
    now = world.members.registration().partitions[0]
    assert (now.leader, now.isr, now.leader_epoch) == (1, (1, 3), 0)


def test_failed_log_keeps_leadership_until_another_can_lead() -> None:
    world = World(min_isr=2)
    world.members.write(lambda old: old._replace(isr=(1,), elr=(2,)))
    for node in (2, 3):
        world.members.register(node, fenced=True)
    world.break_log("t", "own")
    for name in ("t", "own"):
        append(world.members.partition(1, name), b"b")
    world.settle()
    world.advance(2000)
    assert world.members.registration().partitions[0].leader == 1
    assert world.members.registration("own").partitions[0].leader == 1
    world.members.register(2)
    world.advance(2000)
    now = world.members.registration().partitions[0]
    assert (now.leader, now.isr, now.elr) == (2, (2,), ())


def test_a_log_that_can_not_be_opened_is_not_led() -> None:
    world = World()
    world.storage.fail("create", lambda path: path.startswith("v-0/"))
    world.members.result(world.members[2].broker.topics.create(NewTopic("v", assignments={0: [1, 2]})))
    world.settle()
    assert world.members.registration("v").partitions[0].leader == 2
