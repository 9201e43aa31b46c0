from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

import pytest

from kqueue.base.config import ConfigSource
from kqueue.base.errors import StorageFailed
from kqueue.broker.cluster import controller as controller_module
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.store import Session, Term
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration, TopicRegistration
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.broker.cluster_members import CLEAN, TOPIC_ID, World


class CountingStore(MemoryStore):
    """Counts commits by terms, and may fail or be overtaken at the next one of topics."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.sizes: list[int] = []
        self.overtaken_by: Mapping[str, bytes] = {}
        self.fails = False

    def commit(
        self,
        guards: Mapping[str, int | None],
        puts: Mapping[str, bytes],
        deletes: Iterable[str],
        *,
        by: Session | Term | None = None,
    ) -> Mapping[str, int]:
        if by is not None and any(key.startswith("/topics/") for key in puts):
            self.sizes.append(len(puts))
            if self.overtaken_by:
                other, self.overtaken_by = self.overtaken_by, {}
                super().commit({}, other, ())
            if self.fails:
                self.fails = False
                raise StorageFailed("no answer")
        return super().commit(guards, puts, deletes, by=by)


def test_single_controller_is_known_to_all_members() -> None:
    world = World()
    members = world.started(1, 2, 3)
    assert world.controllers == [1]
    assert [member.cluster.controller_id for member in members] == [1, 1, 1]
    assert [broker.id for broker in members[2].cluster.brokers()] == [1, 2, 3]


def test_another_member_takes_over_from_a_lost_controller(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    first, *others = world.started(1, 2, 3)
    world.put_topic("t", [1, 2, 3], [2, 1, 3], [1])
    first.is_paused = True
    with caplog.at_level(logging.INFO, "kqueue.broker"):
        world.advance(12_000)
    (controller,) = [node for node in world.controllers if node != 1]
    assert {member.cluster.controller_id for member in others} == {controller}
    assert [(one.leader, one.isr, one.leader_epoch) for one in world.topic("t")] == [
        (2, (2, 3), 1),
        (2, (2, 3), 0),
        (NO_LEADER, (), 1),
    ]
    assert world.topic("t")[2].elr == (1,)
    lines = [line for line in caplog.messages if line.startswith(("t-", "broker 1"))]
    assert len(lines) == 4, lines
    assert "broker 1 (epoch 1) is fenced: its session has ended" in lines
    first.is_paused = False
    world.advance(3000)
    assert world.topic("t")[2].leader == 1
    assert first.controller.term is None, "its term was lost"


def test_a_term_that_was_lost_unnoticed_changes_nothing() -> None:
    """Rule 7: between the decision and its commit the process was paused."""
    world = World()
    first, _, third = world.started(1, 2, 3)
    world.put_topic("t", [3, 2, 1])
    third.is_paused = True
    world.advance(8500)
    for member in world.members[:2]:
        world.clock.advance(300)
        member.timers.run_due(world.clock.monotonic_ms())
    world.clock.advance(200)
    while not any(job.name == "change the cluster" for job in first.jobs.pending):
        if not first.jobs.step():
            first.controller.look()
    first.is_paused = True
    world.advance(12_000)
    before = world.topic("t")
    assert (before[0].leader, before[0].isr) == (2, (2,))
    first.is_paused = False
    world.settle()
    assert world.topic("t") == before
    world.advance(3000)
    assert first.registration.is_unfenced


def test_a_record_that_changed_after_the_decision_is_not_overwritten() -> None:
    world = World()
    world.store = store = CountingStore(world.clock)
    _, _, third = world.started(1, 2, 3)
    world.put_topic("t", [3, 2, 1], [1])
    changed = TopicRegistration(
        TOPIC_ID, {}, (PartitionRegistration((3, 2, 1), (3, 1), 3, 0, 1), PartitionRegistration((1,), (1,), 1))
    )
    store.overtaken_by = {"/topics/t": changed.to_bytes()}
    third.is_paused = True
    world.advance(12_000)
    assert len(store.sizes) >= 2, "it was decided again"
    assert (world.topic("t")[0].leader, world.topic("t")[0].isr) == (1, (1,)), "2 had left the in-sync set"


def test_a_commit_whose_outcome_is_unknown_is_decided_again() -> None:
    world = World()
    world.store = store = CountingStore(world.clock)
    _, _, third = world.started(1, 2, 3)
    world.put_topic("t", [3, 2, 1])
    store.fails = True
    third.is_paused = True
    world.advance(15_000)
    assert world.topic("t")[0].leader == 2


def test_decisions_are_committed_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controller_module, "COMMIT_TOPICS_MAX", 3)
    world = World()
    world.store = store = CountingStore(world.clock)
    _, _, third = world.started(1, 2, 3)
    for number in range(8):
        world.put_topic(f"t{number}", [3, 2, 1])
    third.is_paused = True
    world.advance(12_000)
    assert store.sizes == [3, 3, 2]
    assert all(world.topic(f"t{number}")[0].leader == 2 for number in range(8))
    monkeypatch.setattr(controller_module, "COMMIT_BYTES_MAX", 100)
    third.is_paused = False
    world.advance(3000)
    assert third.registration.is_unfenced


def test_preferred_leaders_lead_again_after_the_interval(caplog: pytest.LogCaptureFixture) -> None:
    world = World()
    world.member(1, settings={"leader.imbalance.check.interval.seconds": 60}).start()
    world.started(2)
    record = TopicRegistration(TOPIC_ID, {}, (PartitionRegistration((2, 1), (2, 1), 1),)).to_bytes()
    world.store.commit({}, {"/topics/t": record}, ())
    world.advance(50_000)
    assert world.topic("t")[0].leader == 1
    with caplog.at_level(logging.INFO, "kqueue.broker"):
        world.advance(11_000)
    assert world.topic("t")[0].leader == 2
    assert caplog.messages == ["t-0: leader 1 -> 2 (epoch 1)"]


def test_preferred_leaders_stay_unless_the_setting_says_so() -> None:
    world = World()
    world.member(
        1, settings={"leader.imbalance.check.interval.seconds": 60, "auto.leader.rebalance.enable": False}
    ).start()
    world.started(2)
    record = TopicRegistration(TOPIC_ID, {}, (PartitionRegistration((2, 1), (2, 1), 1),)).to_bytes()
    world.store.commit({}, {"/topics/t": record}, ())
    world.advance(130_000)
    assert world.topic("t")[0].leader == 1


def test_an_unclean_election_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """Rule 5."""
    world = World()
    world.started(1)
    second, third = world.started(2, 3)
    record = TopicRegistration(
        TOPIC_ID, {"unclean.leader.election.enable": "true"}, (PartitionRegistration((3, 2), (3,), 3),)
    ).to_bytes()
    world.store.commit({}, {"/topics/t": record}, ())
    world.settle()
    third.is_paused = True
    world.advance(12_000)
    assert world.topic("t")[0].leader == 2
    assert world.topic("t")[0].recovering
    assert any(
        record.levelno == logging.WARNING and "unclean election" in record.getMessage() for record in caplog.records
    )
    assert second.registration.is_unfenced


def test_a_changed_default_counts_at_once() -> None:
    world = World()
    controller, _, third = world.started(1, 2, 3)
    record = TopicRegistration(TOPIC_ID, {}, (PartitionRegistration((3, 2), (3,), 3),)).to_bytes()
    world.store.commit({}, {"/topics/t": record}, ())
    world.settle()
    third.is_paused = True
    world.advance(12_000)
    assert world.topic("t")[0].leader == NO_LEADER
    controller.config.set_dynamic(ConfigSource.DYNAMIC_DEFAULT_BROKER, {"unclean.leader.election.enable": True})
    world.advance(3000)
    assert world.topic("t")[0].leader == 2


def test_a_leaving_controller_moves_its_own_leaderships_first() -> None:
    world = World()
    first, second = world.started(1, 2)
    world.put_topic("t", [1, 2], [1])
    first.registration.leave()
    world.settle()
    assert [(one.leader, one.isr) for one in world.topic("t")] == [(2, (2,)), (1, (1,))]
    first.controller.stop()
    world.settle()
    assert world.controllers == [2]
    assert second.cluster.controller_id == 2


def test_nothing_is_decided_twice() -> None:
    world = World()
    world.store = store = CountingStore(world.clock)
    world.started(1, 2)
    world.put_topic("t", [1, 2])
    world.advance(2000)  # the brokers renew their stamps
    version = store.changes(0).version
    world.advance(120_000)
    assert store.changes(0).version == version, "nothing was committed without a reason"


def test_a_damaged_record_is_reported_and_the_controller_goes_on_without_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.started(1)
    world.store.commit({}, {"/topics/t": b"{}"}, ())
    world.settle()
    assert any("/topics/t" in line for line in caplog.messages), caplog.messages
    world.put_topic("u", [1])
    (second,) = [world.member(2).start(CLEAN)]
    assert second.registration.is_unfenced
