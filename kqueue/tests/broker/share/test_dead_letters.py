"""Records that a share group gives up are in its dead-letter topic before they are archived."""

from __future__ import annotations

import contextlib
import logging
import random

import pytest

from kqueue.metadata.memory import MemoryStore
from kqueue.testing.faulty_storage import FaultyStorage, PowerCut, Remains
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient, batch, stored
from kqueue.tests.api.share_client import ACCEPT, GAP, REJECT, RELEASE, Member, acquired, data_of, earliest, fill
from kqueue.tests.thorough import corners, parts
from kqueue.wire.error_codes import ErrorCode


def prepared(client: SimulatedClient, **settings: str) -> Member:
    client.sim.topic("t", 2)
    earliest(client, **{"kqueue_share_dead_letter_topic": "dead", **settings})
    fill(client, 4)
    member = Member(client)
    member.fetch()
    return member


def letters(client: SimulatedClient) -> list[tuple[bytes | None, dict[str, bytes | None]]]:
    if client.sim.broker.topics.find("dead") is None:
        return []
    return [(record.value, dict(record.headers)) for record in stored(client, "dead")]


def test_rejected_and_exhausted_records_are_copied() -> None:
    client = SimulatedClient()
    member = prepared(client, share_delivery_count_limit="2")
    answer = data_of(member.acknowledge((0, 3, [ACCEPT, REJECT, GAP, RELEASE])))
    assert answer.error_code == 0
    assert acquired(member.fetch()) == [(3, 3, 2)]
    client.sim.advance(31_000)
    first, second = letters(client)
    assert first[0] == b"1"
    assert first[1] == {
        "kqueue.share.group": b"g",
        "kqueue.share.topic": b"t",
        "kqueue.share.partition": b"0",
        "kqueue.share.offset": b"1",
        "kqueue.share.delivery.count": b"1",
        "kqueue.share.reason": b"rejected",
    }
    assert second[0] == b"3"
    assert second[1]["kqueue.share.reason"] == b"delivery count limit"
    assert second[1]["kqueue.share.delivery.count"] == b"2"
    assert acquired(member.fetch()) == []


def test_without_the_option_nothing_is_kept() -> None:
    client = SimulatedClient()
    member = prepared(client, kqueue_share_dead_letter_topic="")
    assert data_of(member.acknowledge((0, 3, REJECT))).error_code == 0
    assert letters(client) == []


def test_many_records_are_copied_in_several_batches() -> None:
    client = SimulatedClient()
    prepared(client)
    fill(client, 300, 300, 300)
    client.produce("t", batch(*(bytes(60_000) for _ in range(10)), codec="gzip"))
    member = Member(client, "m2")
    assert acquired(member.fetch(max_records=2000)) != []
    assert data_of(member.acknowledge((4, 913, REJECT))).error_code == 0
    assert [int(header["kqueue.share.offset"] or b"") for _, header in letters(client)] == list(range(4, 914))


def test_a_group_does_not_read_its_own_dead_letters() -> None:
    client = SimulatedClient()
    member = prepared(client)
    assert data_of(member.acknowledge((0, 0, REJECT))).error_code == 0
    other = Member(client, "m2")
    answer = data_of(other.fetch(topics=["dead"]))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "its own dead-letter topic" in answer.error_message
    earliest(client, kqueue_share_dead_letter_topic="t")
    answer = data_of(member.acknowledge((1, 1, REJECT)))
    assert answer.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert len(stored(client)) == 4


def test_a_record_that_can_not_be_copied_stays(caplog: pytest.LogCaptureFixture) -> None:
    client = SimulatedClient({"kqueue.max.partitions": 4, "share.coordinator.state.topic.num.partitions": 2})
    member = prepared(client)
    with caplog.at_level(logging.WARNING):
        answer = data_of(member.acknowledge((0, 0, REJECT)))
        assert answer.error_code != 0
        assert data_of(member.acknowledge((0, 0, REJECT))).error_code != 0
    assert sum("dead-letter topic dead" in message for message in caplog.messages) == 1
    assert data_of(member.acknowledge((0, 0, ACCEPT))).error_code == 0


def test_deleted_records_are_left_out() -> None:
    client = SimulatedClient()
    member = prepared(client)
    topic = client.sim.broker.topics.get("t")
    client.sim.result(client.sim.broker.upkeep.deletion.delete_before(topic, 0, 2))
    assert data_of(member.acknowledge((0, 3, REJECT))).error_code == 0
    assert [value for value, _ in letters(client)] == [b"2", b"3"]


def _run(storage: FaultyStorage, store: MemoryStore, told: set[int]) -> None:
    client = SimulatedClient(sim=Simulation(storage=storage, store=store))
    member = prepared(client)
    for offset in (2, 0, 1):
        assert data_of(member.acknowledge((offset, offset, REJECT))).error_code == 0
        told.add(offset)


@parts(6)
@pytest.mark.parametrize("remains", corners(Remains, Remains.TORN))
def test_none_is_lost_when_the_power_goes(remains: Remains, part: slice) -> None:
    whole, everything = FaultyStorage(), set[int]()
    _run(whole, MemoryStore(), everything)
    assert everything == {0, 1, 2}
    for cut_at in range(1, len(whole.steps) + 1)[part]:
        storage, store, told = FaultyStorage(cut_at=cut_at), MemoryStore(), set[int]()
        with contextlib.suppress(PowerCut):
            _run(storage, store, told)
        left = storage.after_cut(remains, random.Random(cut_at))
        client = SimulatedClient(sim=Simulation(storage=left, store=store))
        if client.sim.broker.topics.find("t") is None or not stored(client):
            continue
        ranges = acquired(Member(client).fetch())
        again = {offset for first, last, _ in ranges for offset in range(first, last + 1)}
        copied = {int(header["kqueue.share.offset"] or b"") for _, header in letters(client)}
        assert told <= copied, cut_at
        assert not again & told, cut_at
        archived = set(range(len(stored(client)))) - again
        assert archived <= copied, f"{archived - copied} are archived, and in no topic: cut at {cut_at}"
