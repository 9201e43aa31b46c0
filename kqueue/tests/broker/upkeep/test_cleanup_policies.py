"""Cleanup policies in a whole broker: consumed, plugins' policies, and their limits."""

from __future__ import annotations

import pytest

from kqueue.base.config import TopicConfig
from kqueue.base.errors import SettingError
from kqueue.broker.topics.topics import OFFSETS_TOPIC
from kqueue.log.policies import CommittedOffsets, Compact, Drop, LogView
from kqueue.records.batch import (
    Record,
    read_header,
)
from kqueue.records.builder import build_batch
from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.upkeep.cleanup_broker import (
    CHECK_MS,
    SEGMENT,
    SETTINGS,
    bases,
    check_restart,
    commit,
    fill,
    offsets,
    policy,
    records,
)
from kqueue.tests.tables import for_each


def test_without_a_policy_only_deleted_records_go() -> None:
    """KIP-1161: an empty list keeps all records."""
    sim = Simulation(SETTINGS)
    topic = sim.topic("kept", cleanup_policy="", **{**SEGMENT, "retention_ms": "1", "retention_bytes": "1"})
    partition = topic.partition(0)
    fill(sim, partition, 10)
    sim.advance(10 * CHECK_MS)
    assert (partition.log_start_offset, len(records(partition))) == (0, 10)
    sim.broker.upkeep.deletion.delete_before(topic, 0, 5)
    sim.advance(CHECK_MS)
    assert (partition.log_start_offset, bases(partition)[0]) == (5, 4)


@pytest.mark.long
def test_segments_consumed_by_all_groups_are_deleted() -> None:
    """S5.4"""
    sim = Simulation(SETTINGS)
    topic = sim.topic("jobs", cleanup_policy="consumed", **{**SEGMENT, "kqueue_consumed_groups": "mail,bill"})
    partition = topic.partition(0)
    fill(sim, partition, 10)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 0, "nobody has consumed anything"
    commit(sim, "mail", "jobs", 9)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 0, "bill has not begun"
    commit(sim, "bill", "jobs", 5)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 4, "whole segments below 5"
    commit(sim, "bill", "jobs", 10)
    commit(sim, "mail", "jobs", 10)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 8, "the active segment stays"
    sim = check_restart(sim, "jobs")
    sim.advance(10**7)
    assert sim.broker.topics.partition("jobs", 0).log_start_offset == 8, "nothing times out without delete"


def test_unconsumed_records_expire_beside_delete() -> None:
    """S5.4"""
    sim = Simulation(SETTINGS)
    settings = {**SEGMENT, "kqueue_consumed_groups": "mail", "retention_ms": "60000"}
    partition = sim.topic("jobs", cleanup_policy="delete,consumed", **settings).partition(0)
    fill(sim, partition, 10)
    commit(sim, "mail", "jobs", 4)
    sim.advance(CHECK_MS)
    assert partition.log_start_offset == 4
    sim.advance(60_000)
    assert partition.log_start_offset == 10


# --- plugins


def test_a_plugins_policy_drops() -> None:
    def keep_two(log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Drop | None:
        return Drop(log.segments[-2].base_offset, "two are enough") if len(log.segments) > 2 else None

    with policy("keep-two", keep_two):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="keep-two", **SEGMENT).partition(0)
        fill(sim, partition, 20)
        sim.advance(CHECK_MS)
        assert bases(partition) == [16, 18]
        assert partition.log_start_offset == 16
        check_restart(sim, "t")


def is_not_forgotten(record: Record) -> bool:
    return record.key != b"key-1"


def test_a_plugins_policy_rewrites_with_a_filter_of_its_own() -> None:
    calls = []

    def forget(log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> Compact:
        calls.append(log)
        return Compact(keep=is_not_forgotten, why="somebody asked to be forgotten")

    with policy("forget", forget):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="forget", **SEGMENT).partition(0)
        fill(sim, partition, 10, keys=3)
        sim.advance(2000)
        active = bases(partition)[-1]
        assert offsets(partition) == [offset for offset in range(10) if offset % 3 != 1 or offset >= active]
        assert sim.logs.checkpoints.cleaner_offset(("t", 0)) == active
        sim = check_restart(sim, "t")
        assert len(calls) < 10, "it is not done over and over"


@for_each("greed", [Drop(10**12, "all of it", roll_active=True), Drop(10**12, "all of it")])
def test_no_policy_can_harm_what_is_not_safe_yet(greed: Drop) -> None:
    """A drop is kept within sealed segments below the high watermark."""
    with policy("greedy", lambda *_: greed):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="greedy", **SEGMENT).partition(0)
        fill(sim, partition, 10)
        batch = build_batch([Record(0, sim.clock.wall_ms(), b"key", b"not flushed")])
        partition.append(memoryview(batch), read_header(batch))
        assert partition.high_watermark == 10
        sim.broker.upkeep.cleanup.retain(partition)
        while sim.jobs.step() or sim.broker.scheduler.purgatory.run_ready():
            assert partition.log_start_offset <= partition.high_watermark
        assert records(partition)[-1].value == b"not flushed"


def test_a_policy_that_raises_is_logged_once_and_its_log_not_cleaned(caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("one half of nothing")

    with policy("broken", fail):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="delete,broken", retention_bytes="0", **SEGMENT).partition(0)
        other = sim.topic("u", retention_bytes="0", **SEGMENT).partition(0)
        fill(sim, partition, 6)
        fill(sim, other, 6)
        sim.advance(CHECK_MS * 10)
    assert (partition.log_start_offset, other.log_start_offset) == (0, 6)
    errors = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert len(errors) == 1
    assert "t-0: cleanup policy 'broken' of a test failed, the log is not cleaned: ZeroDivisionError" in errors[0]


@pytest.mark.parametrize("nonsense", [5, "delete", Drop("5", "a text"), Compact(upto_offset="5")])  # type: ignore[arg-type]
def test_an_invalid_plan_is_rejected(nonsense: object, caplog: pytest.LogCaptureFixture) -> None:
    with policy("nonsense", lambda *_: nonsense):
        sim = Simulation(SETTINGS)
        partition = sim.topic("t", cleanup_policy="nonsense", **SEGMENT).partition(0)
        fill(sim, partition, 6)
        sim.advance(CHECK_MS * 3)
        assert len(offsets(partition)) == 6
    assert "nonsense" in caplog.text


def test_a_policy_sees_what_groups_have_committed() -> None:
    seen = []

    def look(log: LogView, groups: CommittedOffsets, config: TopicConfig, now_ms: int) -> None:
        seen.append(
            (
                groups.committed("g", log.topic, log.partition),
                groups.committed("other", log.topic, log.partition),
                now_ms,
            )
        )

    with policy("looking", look):
        sim = Simulation(SETTINGS)
        fill(sim, sim.topic("t", cleanup_policy="looking", **SEGMENT).partition(0), 2)
        commit(sim, "g", "t", 1)
        sim.advance(CHECK_MS)
    assert seen[-1] == (1, None, sim.clock.wall_ms()) or seen[-1][:2] == (1, None)


def test_a_broker_does_not_serve_a_topic_whose_policy_it_has_no_more() -> None:
    """Rather than keep, or drop, what the topic's owner wanted otherwise."""
    with policy("gone", lambda *_: None):
        sim = Simulation(SETTINGS)
        sim.topic("t", cleanup_policy="delete,gone")
        sim.stop()
    with pytest.raises(SettingError, match="topic t was made with .*no cleanup policy is called 'gone'"):
        sim.restarted()


# --- the broker's own topic


def test_consumer_offsets_are_compacted_and_groups_come_back_as_they_were() -> None:
    """S5.2: __consumer_offsets"""
    settings = {**SETTINGS, "offsets.topic.num.partitions": 1, "offsets.topic.segment.bytes": 1000}
    sim = Simulation(settings)
    sim.topic("t", **SEGMENT)
    for offset in range(60):
        for group in ("g1", "g2", "g3"):
            commit(sim, group, "t", offset)
    own = sim.broker.topics.partition(OFFSETS_TOPIC, 0)
    size = own.log.segments.size
    sim.advance(5000)
    assert own.log.segments.size < size / 3
    sim.advance(100_000)
    sim.stop()
    sim = sim.restarted()
    assert {group: sim.broker.coordinators.groups.offsets(group)["t"][0].offset for group in ("g1", "g2", "g3")} == {
        "g1": 59,
        "g2": 59,
        "g3": 59,
    }
    sim.result(sim.broker.coordinators.groups.delete("g2"))
    for offset in range(60, 100):
        commit(sim, "g1", "t", offset)
    sim.advance(10_000)
    sim.stop()
    again = sim.restarted()
    assert again.broker.coordinators.groups.offsets("g1")["t"][0].offset == 99
    assert again.broker.coordinators.groups.offsets("g2") == {}
