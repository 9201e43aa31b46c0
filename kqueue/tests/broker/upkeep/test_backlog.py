"""Bounds on the unread backlog of a topic: what is counted, refused and slowed."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import PolicyViolation
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.replicas.partition import Partition
from kqueue.broker.upkeep.backlog import LOG_INTERVAL_MS, BacklogBound, BacklogState, TopicBacklog
from kqueue.log.log import Log
from kqueue.records.batch import Record, iter_batches, read_header
from kqueue.records.builder import build_batch
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import ErrorCode, SimulatedClient, batch, old_set, produce_request, stored
from kqueue.tests.broker.upkeep.cleanup_broker import CHECK_MS, SETTINGS, commit, fill
from kqueue.tests.steps import steps
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import examples

POLICY_VIOLATION = ErrorCode.POLICY_VIOLATION


def append(partition: Partition, count: int = 1, size: int = 20) -> None:
    records = [Record(offset, 1_700_000_000_000, None, b"." * size) for offset in range(count)]
    data = build_batch(records)
    partition.append(memoryview(data), read_header(data))


def backlog_of(sim: Simulation, topic: str = "t") -> TopicBacklog:
    backlog = sim.broker.upkeep.backlogs.of(topic)
    assert backlog is not None
    return backlog


def configure(sim: Simulation, topic: str, configs: Mapping[str, str]) -> None:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    sim.result(sim.broker.configs.replace(resource, list(configs.items())))


def bounded(messages: int, *, partitions: int = 1, **configs: str) -> SimulatedClient:
    client = SimulatedClient({"kqueue.storage": "memory"})
    client.sim.topic("t", partitions, kqueue_backlog_messages_max=str(messages), **configs)
    return client


def test_past_the_bound_producers_are_refused_until_a_group_has_caught_up() -> None:
    client = bounded(3)
    for _ in range(3):
        assert client.produce("t", batch(b"order")).error_code == 0
    refused = client.produce("t", batch(b"order"))
    assert refused.error_code == POLICY_VIOLATION
    assert refused.base_offset == -1
    assert refused.error_message == (
        "topic t takes no more records until its consumers have caught up; unread: "
        "3 messages (kqueue.backlog.messages.max=3); no group has committed an offset for partition 0 yet. "
        "Send again later, start more consumers, or raise the bound"
    )
    commit(client.sim, "shop", "t", 1)
    assert client.produce("t", batch(b"order")).error_code == 0
    refused = client.produce("t", batch(b"order"))
    assert "group 'shop' is the slowest, with 3 of them in partition 0" in refused.error_message
    assert len(stored(client)) == 4, "nothing of a refused request is appended"


def test_the_slowest_group_counts_and_named_groups_alone_if_there_are_any() -> None:
    client = bounded(5)
    for _ in range(5):
        client.produce("t", batch(b"order"))
    commit(client.sim, "fast", "t", 5)
    assert client.produce("t", batch(b"order")).error_code == 0
    commit(client.sim, "slow", "t", 1)
    assert client.produce("t", batch(b"order")).error_code == POLICY_VIOLATION
    sim = bounded(5, kqueue_backlog_groups="shop,billing").sim
    partition = sim.broker.topics.partition("t", 0)
    append(partition, 5)
    commit(sim, "fast", "t", 5)
    assert backlog_of(sim).state is BacklogState.REFUSING, "a group that is not named does not count"
    commit(sim, "shop", "t", 5)
    assert backlog_of(sim).describe().group == "billing", "a named group without an offset has read nothing"
    commit(sim, "billing", "t", 2)
    assert backlog_of(sim).describe().messages == 3


def test_a_commit_reads_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """One request may commit for thousands of partitions. Bytes are an upper bound until then."""
    client = bounded(100)
    for _ in range(9):
        client.produce("t", batch(b"order"))
    reads: list[int] = []
    read = Log.read

    def counted(log: Log, offset: int, *args: Any, **kwargs: Any) -> Any:
        reads.append(offset)
        return read(log, offset, *args, **kwargs)

    monkeypatch.setattr(Log, "read", counted)
    for offset in (9, 6, 9, 3):
        commit(client.sim, "shop", "t", offset)
        assert backlog_of(client.sim).messages == 9 - offset
    assert reads == []
    upper = backlog_of(client.sim).bytes
    assert 0 < backlog_of(client.sim).describe().bytes < upper
    assert reads == [3]


def test_the_bound_holds_for_all_partitions_together() -> None:
    client = bounded(4, partitions=3)
    for index in (0, 1, 1, 2):
        assert client.produce("t", batch(b"order"), partition=index).error_code == 0
    for index in (0, 1, 2):
        assert client.produce("t", batch(b"order"), partition=index).error_code == POLICY_VIOLATION
    described = backlog_of(client.sim).describe()
    assert [(one.partition, one.messages) for one in described.partitions] == [(0, 1), (1, 2), (2, 1)]


def test_a_batch_is_accepted_whole_below_the_bound() -> None:
    client = bounded(5)
    assert client.produce("t", batch(*[b"order"] * 50)).error_code == 0, "else it would never be accepted"
    assert client.produce("t", batch(b"order")).error_code == POLICY_VIOLATION


def test_a_message_set_of_old_clients_is_appended_whole_or_not_at_all() -> None:
    client = bounded(2)
    assert client.produce("t", old_set(1, b"a", b"b", b"c") + old_set(1, b"d"), version=2).error_code == 0
    count = len(stored(client))
    assert client.produce("t", old_set(1, b"e"), version=2).error_code == POLICY_VIOLATION
    assert len(stored(client)) == count


def test_the_sequence_of_an_idempotent_producer_survives_a_refusal() -> None:
    client = bounded(2)

    def numbered(sequence: int) -> bytes:
        return batch(b"order", producer_id=7, epoch=0, base_sequence=sequence)

    assert [client.produce("t", numbered(n)).base_offset for n in (0, 1)] == [0, 1]
    assert client.produce("t", numbered(2)).error_code == POLICY_VIOLATION
    repeated = client.produce("t", numbered(1))
    assert (repeated.error_code, repeated.base_offset) == (0, 1), "what was appended is confirmed"
    commit(client.sim, "shop", "t", 2)
    assert client.produce("t", numbered(2)).base_offset == 2


def test_bytes_are_counted_from_the_batch_that_a_group_reads_next() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    partition = sim.topic("t", kqueue_backlog_bytes_max="1000", segment_bytes="450").partition(0)
    size = len(build_batch([Record(0, 1_700_000_000_000, None, b"." * 20)]))
    while backlog_of(sim).state is BacklogState.OPEN:
        append(partition)
    count = partition.log_end_offset
    assert (count - 1) * size < 1000 <= count * size
    commit(sim, "shop", "t", 2)
    assert backlog_of(sim).state is BacklogState.OPEN
    assert backlog_of(sim).describe().bytes == (count - 2) * size
    append(partition, 1, 1000)
    with pytest.raises(PolicyViolation, match=r"unread: .* bytes \(kqueue.backlog.bytes.max=1000\)"):
        append(partition)
    commit(sim, "shop", "t", partition.log_end_offset)
    assert backlog_of(sim).describe()[:3] == (BacklogState.OPEN, 0, 0)


def test_bytes_that_only_the_remote_tier_has_are_not_counted() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    partition = sim.topic("t", kqueue_backlog_bytes_max="1000", segment_bytes="200").partition(0)
    append(partition, 1)
    size = partition.log.segments.size
    for _ in range(5):
        append(partition, 1)
    log = partition.log
    log.config = dataclasses.replace(log.config, tiered=True)
    log.tiered_end = 4
    assert log.delete_local(4, high_watermark=6, why="old") is not None
    commit(sim, "shop", "t", 1)
    assert backlog_of(sim).describe()[1:3] == (5, (6 - log.local_start_offset) * size)


def test_deleted_records_are_not_unread() -> None:
    sim = Simulation(SETTINGS)
    topic = sim.topic(
        "t",
        kqueue_backlog_messages_max="6",
        kqueue_backlog_bytes_max="100000",
        segment_bytes="500",
        retention_ms="5000",
    )
    fill(sim, topic.partition(0), 6)
    assert backlog_of(sim).exceeded
    sim.result(sim.broker.upkeep.deletion.delete_before(topic, 0, 2))
    assert backlog_of(sim).describe().messages == 4
    sim.advance(CHECK_MS)
    described = backlog_of(sim).describe()
    assert (described.messages, described.bytes) == (0, 0), "retention rolls and deletes all of them"


def test_a_group_that_is_deleted_or_expires_does_not_count() -> None:
    sim = Simulation({"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000})
    partition = sim.topic("t", kqueue_backlog_messages_max="3").partition(0)
    append(partition, 5)
    commit(sim, "shop", "t", 4)
    commit(sim, "gone", "t", 1)
    assert backlog_of(sim).describe().group == "gone"
    sim.result(sim.broker.coordinators.groups.delete("gone"))
    assert backlog_of(sim).describe()[1:4:2] == (1, "shop")
    sim.advance(120_000)
    assert backlog_of(sim).describe()[1:4:2] == (5, None), "no group has read anything, as far as anyone knows"


def test_a_restart_keeps_the_backlog() -> None:
    sim = Simulation()
    topic = sim.topic("t", 3, kqueue_backlog_messages_max="10", kqueue_backlog_bytes_max="100000")
    for index in (0, 2):
        append(topic.partition(index), 6, 50)
        sim.settle()
    commit(sim, "shop", "t", 4)
    before = backlog_of(sim).describe()
    assert (before.messages, before.state) == (8, BacklogState.OPEN)
    sim.stop()
    sim = sim.restarted()
    assert backlog_of(sim).describe() == before
    append(sim.broker.topics.partition("t", 1), 2)
    with pytest.raises(PolicyViolation):
        append(sim.broker.topics.partition("t", 1))


def test_new_partitions_and_a_topic_of_the_same_name_begin_empty() -> None:
    sim = Simulation()
    topic = sim.topic("t", kqueue_backlog_messages_max="3")
    append(topic.partition(0), 3)
    sim.result(sim.broker.topics.add_partitions("t", 2))
    with pytest.raises(PolicyViolation):
        append(topic.partition(1))
    sim.result(sim.broker.topics.delete("t"))
    assert sim.broker.upkeep.backlogs.of("t") is None
    append(sim.topic("t", kqueue_backlog_messages_max="3").partition(0))
    assert backlog_of(sim).messages == 1


def test_offsets_beyond_the_end_mean_that_nothing_is_unread() -> None:
    sim = Simulation({"kqueue.storage": "memory"})
    partition = sim.topic("t", kqueue_backlog_messages_max="3", kqueue_backlog_bytes_max="1000").partition(0)
    commit(sim, "shop", "t", 100)
    append(partition, 10)
    assert backlog_of(sim).describe()[:3] == (BacklogState.OPEN, 0, 0)


@for_each("version", [1, 5, 6, 9, 13])
@for_each("acks", [1, -1])
def test_throttled_producers_wait_the_longer_the_further_the_backlog_is_beyond(version: int, acks: int) -> None:
    client = bounded(10, kqueue_backlog_action="throttle", kqueue_backlog_throttle_max_ms="400")
    muted: list[int] = []
    waits = []
    for _ in range(24):
        data = batch(b"order") if version > 2 else old_set(1, b"order")
        request = produce_request(client, "t", data, version, acks=acks)
        response = client.ask(request, version, throttle=muted.append)
        assert response.responses[0].partition_responses[0].error_code == 0
        waits.append(response.throttle_time_ms)
    assert waits[:9] == [0] * 9
    assert waits[9:12] == [1, 40, 80]
    assert waits[19:] == [400] * 5
    assert muted == waits[9:]
    commit(client.sim, "shop", "t", 20)
    assert client.ask(produce_request(client, "t", data, version, acks=acks), version).throttle_time_ms == 0


def test_without_replies_producers_are_throttled_too() -> None:
    client = bounded(1, kqueue_backlog_action="throttle")
    muted: list[int] = []
    client.ask(produce_request(client, "t", batch(b"a", b"b"), acks=0), 9, throttle=muted.append)
    assert muted == [1000]


def test_a_bound_of_zero_closes_a_topic() -> None:
    client = bounded(0)
    assert client.produce("t", batch(b"a")).error_code == POLICY_VIOLATION
    client = bounded(0, kqueue_backlog_action="throttle")
    assert client.ask(produce_request(client, "t", batch(b"a")), 9).throttle_time_ms == 1000


def test_topic_has_no_backlog_bound_by_default() -> None:
    sim = Simulation()
    topic = sim.topic("t")
    assert BacklogBound.of(topic.config) is None
    assert sim.broker.upkeep.backlogs.of("t") is None
    assert topic.partition(0).backlog is None


def test_a_change_of_the_settings_takes_effect_at_once() -> None:
    sim = Simulation()
    topic = sim.topic("t")
    append(topic.partition(0), 5)
    commit(sim, "shop", "t", 1)
    for configs, state in (
        ({"kqueue.backlog.messages.max": "4"}, BacklogState.REFUSING),
        ({"kqueue.backlog.messages.max": "4", "kqueue.backlog.action": "throttle"}, BacklogState.SLOWING),
        ({"kqueue.backlog.messages.max": "5"}, BacklogState.OPEN),
    ):
        configure(sim, "t", configs)
        assert backlog_of(sim).state is state
    configure(sim, "t", {})
    append(topic.partition(0), 50)
    assert sim.broker.upkeep.backlogs.of("t") is None


def test_a_refusal_is_logged_once_a_minute_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    client = bounded(1)
    with caplog.at_level(logging.INFO, "kqueue.broker"):
        for end in range(1, 50):
            client.produce("t", batch(b"order"))
            client.produce("t", batch(b"order"))
            commit(client.sim, "shop", "t", end)
        assert [record.levelname for record in caplog.records] == ["WARNING", "INFO"]
        assert "topic t: producers are refused; unread: 1 message (kqueue" in caplog.text
        client.sim.advance(LOG_INTERVAL_MS)
        client.produce("t", batch(b"order"))
        client.produce("t", batch(b"order"))
        assert len(caplog.records) == 3


def test_an_append_of_a_topic_with_a_bound_costs_no_search() -> None:
    """The cost of an append does not depend on the number of partitions."""
    costs = []
    for partitions in (2, 200):
        sim = Simulation({"kqueue.storage": "memory"})
        bounds = {"kqueue_backlog_messages_max": "100000000", "kqueue_backlog_bytes_max": "100000000000"}
        one = sim.topic("t", partitions, **bounds).partition(0).backlog
        assert one is not None
        one.appended(1, 100)
        costs.append(steps(lambda one=one: [one.appended(offset, 100) for offset in range(2, 12)]))  # type: ignore[misc]
    assert costs[1] == costs[0]


class BacklogMachine(RuleBasedStateMachine):
    """A topic of two partitions against a model that computes the backlog from the log."""

    @initialize(named=st.booleans())
    def start(self, named: bool) -> None:
        self.sim = Simulation({"log.retention.check.interval.ms": 10**9})
        self.named = ["a", "c"] if named else []
        groups = {"kqueue_backlog_groups": "a,c"} if named else {}
        self.sim.topic(
            "t", 2, kqueue_backlog_messages_max="12", kqueue_backlog_bytes_max="2000", segment_bytes="600", **groups
        )
        self.commits: dict[tuple[str, int], int] = {}

    def partition(self, index: int) -> Partition:
        return self.sim.broker.topics.partition("t", index)

    @rule(index=st.integers(0, 1), count=st.integers(1, 4), size=st.integers(0, 150))
    def append(self, index: int, count: int, size: int) -> None:
        is_full = self.model() >= (12, 0) or self.model()[1] >= 2000
        try:
            append(self.partition(index), count, size)
            assert not is_full
        except PolicyViolation:
            assert is_full
        self.sim.settle()

    @rule(group=st.sampled_from("abc"), index=st.integers(0, 1), offset=st.integers(0, 60))
    def commit(self, group: str, index: int, offset: int) -> None:
        self.commits[group, index] = offset
        commit(self.sim, group, "t", offset, index)

    @rule(group=st.sampled_from("abc"))
    def delete_group(self, group: str) -> None:
        if any(name == group for name, _ in self.commits):
            self.sim.result(self.sim.broker.coordinators.groups.delete(group))
        self.commits = {key: offset for key, offset in self.commits.items() if key[0] != group}

    @rule(index=st.integers(0, 1), share=st.floats(0, 1))
    def delete_records(self, index: int, share: float) -> None:
        offset = int(self.partition(index).log_end_offset * share)
        self.sim.result(self.sim.broker.upkeep.deletion.delete_before(self.sim.broker.topics.get("t"), index, offset))

    @rule()
    def restart(self) -> None:
        self.sim.stop()
        self.sim = self.sim.restarted()

    def model(self) -> tuple[int, int]:
        messages = size = 0
        for index in (0, 1):
            log = self.partition(index).log
            of_partition = {group: offset for (group, at), offset in self.commits.items() if at == index}
            counted = [of_partition.get(group, 0) for group in self.named] if self.named else of_partition.values()
            floor = max(min(counted, default=0), log.start_offset)
            messages += max(log.end_offset - floor, 0)
            for segment in log.segments:
                data = segment.log.read_at(0, segment.log.size)
                size += sum(header.size for _, header in iter_batches(data) if header.next_offset > floor)
        return messages, size

    @invariant()
    def backlog_is_the_models(self) -> None:
        if hasattr(self, "sim"):
            messages, size = self.model()
            backlog = backlog_of(self.sim)
            assert backlog.messages == messages
            assert backlog.bytes >= size
            is_full = messages >= 12 or size >= 2000
            assert backlog.state is (BacklogState.REFUSING if is_full else BacklogState.OPEN)
            described = backlog.describe()
            assert (described.messages, described.bytes) == (messages, size)
            assert sum(one.bytes for one in described.partitions) == size


TestBacklogMachine = BacklogMachine.TestCase
TestBacklogMachine.settings = settings(max_examples=examples(25), stateful_step_count=25, deadline=None)
