from __future__ import annotations

import logging

import pytest

from kqueue.groups.assignors import ASSIGNORS, AssignorFactory
from kqueue.groups.consumer.subscriptions import ASSIGNMENT_MS_MAX
from kqueue.groups.modern.target_assignment import RETRY_MS
from kqueue.tests.groups.assignors.plugins import FirstTakesAll, endless, returning
from kqueue.tests.groups.consumer.consumers import T, U, indexes
from kqueue.tests.groups.support import World


def test_new_partitions_are_assigned() -> None:
    world = World()
    world.consume("m")
    world.topics.put("t", 6)
    world.advance(1000)
    assert indexes(world.consume("m", 2).assigned) == set(range(6))


def test_a_deleted_topic_is_taken_away() -> None:
    world = World()
    world.consume("m", topics=["t", "u"])
    world.topics.delete("u")
    world.advance(1000)
    assigned = world.consume("m", 2).assigned
    assert (indexes(assigned), indexes(assigned, U)) == ({0, 1, 2, 3}, set())


def test_a_changed_subscription_is_followed() -> None:
    world = World()
    world.consume("m")
    assigned = world.consume("m", 2, topics=["u"]).assigned
    assert indexes(assigned) == set(), "before the next assignment"
    world.advance(1000)
    world.consume("m", 2, owned={})
    assert world.consumer_group().members["m"].current.assigned.keys() == {U}


def test_patterns_are_resolved_and_follow_new_topics() -> None:
    world = World()
    assert world.consume("m", regex="t.*").member_epoch == 1, "not resolved within the heartbeat"
    assert indexes(world.consume("m", 1).assigned) == {0, 1, 2, 3}
    other = world.topics.put("t2", 1)
    world.advance(10_000)
    world.consume("m", 2)
    world.advance(1000)
    assigned = world.consume("m", world.consumer_group().members["m"].current.epoch).assigned
    assert indexes(assigned, other) == {0}
    world.consume("m", -1)
    assert not world.consumer_group().regexes


# --- assignors that fail


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [row.getMessage() for row in caplog.records if row.levelno >= logging.WARNING]


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (returning(RuntimeError("no")), "assignor 'mine' of a test could not assign: RuntimeError: no"),
        (returning({"m": {T: [0]}, "n": {T: [0]}}), "assignor 'mine' of a test broke its contract: it gave partition"),
        (returning(None), "assignor 'mine' of a test broke its contract: it returned NoneType"),
    ],
)
def test_a_failed_assignment_leaves_the_former_one(
    caplog: pytest.LogCaptureFixture, factory: AssignorFactory, words: str
) -> None:
    """Members and other groups go on; the log has one line, however many heartbeats come."""
    with ASSIGNORS.added("mine", factory, "a test"):
        world = World(group_consumer_assignors="uniform,mine")
        assert indexes(world.consume("m").assigned) == {0, 1, 2, 3}
        epoch = world.consume("n", assignor="mine").member_epoch
        for _ in range(10):
            world.advance(2000)
            assert world.consume("m", 2).member_epoch == 2
            assert world.consume("n", epoch).member_epoch == epoch
        assert world.consumer_group().targets["m"] == {T: frozenset(range(4))}
        assert indexes(world.consume("x", group_id="other").assigned) == {0, 1, 2, 3}
    [line] = failures(caplog)
    assert line.startswith(f"group 'g' keeps its former assignment: {words}")


def test_a_failed_assignment_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """After a minute, or when the group changes."""
    results = [returning(KeyError()), returning(KeyError()), FirstTakesAll]
    with ASSIGNORS.added("mine", lambda: results.pop(0)(), "a test"):
        world = World(group_consumer_assignors="uniform,mine", group_consumer_session_timeout_ms=60_000)
        world.consume("m", assignor="mine")
        world.advance(RETRY_MS / 2)
        world.consume("m", 1)
        assert len(results) == 2
        world.advance(RETRY_MS / 2)
        world.consume("m", 1)
        assert len(results) == 1
        world.consume("m", 1, topics=["u"])
        assert world.consumer_group().targets["m"].keys() == {U}
    assert len(failures(caplog)) == 2


def test_an_assignor_that_never_ends_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    """Heartbeats are answered meanwhile."""
    with ASSIGNORS.added("mine", endless(lambda: world.clock.advance(1)), "a test"):
        world = World(group_consumer_assignors="mine,uniform", group_consumer_session_timeout_ms=60_000)
        assert world.consume("m").member_epoch == 1
        begun_ms = world.clock.monotonic_ms()
        while world.consumer_group().is_assigning:
            world.settle()
            world.consume("m", 1)
        assert world.clock.monotonic_ms() - begun_ms < ASSIGNMENT_MS_MAX + 100
    assert failures(caplog) == ["group 'g' keeps its former assignment: the assignor did not end within 30 s"]


def test_an_assignor_that_the_settings_do_not_name_is_not_used(caplog: pytest.LogCaptureFixture) -> None:
    """A log may have members that ask for it, of a time when they did."""
    with ASSIGNORS.added("mine", FirstTakesAll, "a test"):
        world = World(group_consumer_assignors="uniform,mine")
        world.consume("m", assignor="mine")
        world = world.restarted()
        world.advance(1000)
        world.consume("n")
        world.advance(1000)
        world.consume("m", 2)
    assert {name: len(target[T]) for name, target in world.consumer_group().targets.items()} == {"m": 2, "n": 2}
    assert failures(caplog) == []
