from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from kafka.errors import KafkaError

from kqueue import Broker
from kqueue.collect import resume_dedup
from kqueue.collect.resume_dedup import DeliveredLine, find_delivered


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        running.create_topic("logs", partitions=2)
        topic = running.topics["logs"]
        for number in range(5):
            topic.produce("x" * number, headers={"source": "mine", "offset": str(number)}, partition=number % 2)
        topic.produce("x", headers={"source": "other", "offset": "7"}, partition=0)
        topic.produce("x", headers={"source": "mine", "offset": "-1"}, partition=0)
        topic.produce("x", headers={"source": "mine", "offset": "9" * 50}, partition=0)
        topic.produce(None, key="k", headers={"source": "mine", "offset": "1"}, partition=0)
        topic.produce("x", partition=0)
        yield running


def options(broker: Broker) -> dict[str, Any]:
    return {"bootstrap_servers": broker.bootstrap, "metrics_enabled": False}


def test_own_lines_after_an_offset_are_found(broker: Broker) -> None:
    delivered = find_delivered(options(broker), "logs", {0: 1, 1: 0}, ["mine"])
    assert delivered == (
        {
            DeliveredLine("mine", 1, 1),
            DeliveredLine("mine", 2, 2),
            DeliveredLine("mine", 3, 3),
            DeliveredLine("mine", 4, 4),
        },
        {0: 8, 1: 2},
        True,
    )
    assert (
        find_delivered(options(broker), "logs", {0: 1}, ["mine"]).arrived == delivered.arrived
    )  # the other one came later
    assert find_delivered(options(broker), "logs", {0: 99, 1: 2}, ["mine"]).arrived == frozenset()


def test_without_a_place_nothing_is_read(broker: Broker) -> None:
    assert find_delivered(options(broker), "logs", None, ["mine"]) == (frozenset(), {0: 8, 1: 2}, True)


def test_too_much_is_told(broker: Broker) -> None:
    assert not find_delivered(options(broker), "logs", {}, ["mine"], records_max=3).complete


def test_silence_ends(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka import KafkaConsumer

    monkeypatch.setattr(resume_dedup, "SILENCE_S", -1.0)
    monkeypatch.setattr(KafkaConsumer, "poll", lambda self, timeout_ms: {})
    with pytest.raises(KafkaError, match="nothing came"):
        find_delivered(options(broker), "logs", {}, ["mine"])
