from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest

from kqueue import Broker
from kqueue.client import ClientOptions
from kqueue.schema_registry.schema_log import StoredRecordTooLarge, StoreUnavailable
from kqueue.schema_registry.topic import topic_log
from kqueue.schema_registry.topic.topic_log import SchemaTopicLog
from kqueue.testing import faults

MakeLog = Callable[..., SchemaTopicLog]


@pytest.fixture
def make_log(options: ClientOptions, topic: str) -> Iterator[MakeLog]:
    logs = []

    def make(fence: str | None = topic, **given: object) -> SchemaTopicLog:
        arguments = {"caught_up": lambda offset, seconds: True, **given}
        logs.append(SchemaTopicLog(options, topic, fence=fence, **arguments))
        return logs[-1]

    yield make
    for log in logs:
        log.close()


def values(broker: Broker, topic: str) -> list[bytes | None]:
    """The values of the topic but those of the claims."""
    return [record.value for record in broker.topics[topic].records() if record.key != b'{"keytype":"NOOP","magic":0}']


@pytest.mark.parametrize("fence", ["fence", None])
def test_records_are_appended_after_a_claim(broker: Broker, topic: str, make_log: MakeLog, fence: str | None) -> None:
    log = make_log(fence)
    with pytest.raises(StoreUnavailable, match="is not the one that writes"):
        log.append(b"key", b"value")
    log.claim()
    assert [log.append(b"key", b"value"), log.append(b"key", None)] == [1, 2]
    assert values(broker, topic) == [b"value", None]


def test_a_claim_waits_until_its_record_was_read(make_log: MakeLog) -> None:
    offsets = []
    log = make_log(caught_up=lambda offset, seconds: offsets.append(offset))
    with pytest.raises(StoreUnavailable, match="did not reach offset 0 within 10 s"):
        log.claim()
    assert (offsets, log.is_claimed) == ([0], False)


def test_a_writer_that_was_replaced_can_not_append(broker: Broker, topic: str, make_log: MakeLog) -> None:
    lost = []
    old, new = make_log(), make_log()
    old.claim()
    old.lost_claim = lambda: lost.append(1)
    new.claim()
    with pytest.raises(StoreUnavailable, match="another registry leads now"):
        old.append(b"key", b"old")
    assert (lost, old.is_claimed) == ([1], False)
    new.append(b"key", b"new")
    assert values(broker, topic) == [b"new"]


def test_a_writer_that_is_replaced_while_it_claims_writes_nothing(
    broker: Broker, topic: str, make_log: MakeLog
) -> None:
    old, new = make_log(), make_log()
    with pytest.raises(StoreUnavailable, match="can't write to topic"):
        old.claim(new.claim)  # the other one is elected between the fence and the record of the claim
    new.append(b"key", b"new")
    assert values(broker, topic) == [b"new"]


def test_a_registry_that_does_not_lead_any_more_does_not_claim(make_log: MakeLog) -> None:
    def confirm() -> None:
        raise RuntimeError("another generation")

    log = make_log()
    with pytest.raises(RuntimeError, match="another generation"):
        log.claim(confirm)
    assert not log.is_claimed


def test_an_append_whose_answer_is_lost_ends_the_claim_and_the_next_claim_sees_its_record(
    broker: Broker, topic: str, options: ClientOptions
) -> None:
    quick = ClientOptions(bootstrap=options.bootstrap, timeout_ms=400)
    log = SchemaTopicLog(quick, topic, fence=topic, caught_up=lambda offset, seconds: True)
    log.claim()
    with faults(broker) as faulty:
        faulty.drop_reply("Produce", times=None, topic=topic)
        with pytest.raises(StoreUnavailable, match="no success within 400 ms"):
            log.append(b"key", b"value")
    assert not log.is_claimed
    log.claim()
    log.append(b"key", b"next")
    assert values(broker, topic) == [b"value", b"next"], "each once, whatever was sent again"
    log.close()


def test_a_record_that_is_too_large_is_refused_and_the_claim_stays(
    broker: Broker, topic: str, make_log: MakeLog
) -> None:
    broker.topics[topic].alter_config(max_message_bytes=1_000)
    log = make_log()
    log.claim()
    with pytest.raises(StoredRecordTooLarge, match=r"takes no record of 2,003 bytes: raise its max\.message\.bytes"):
        log.append(b"key", bytes(2_000))
    assert log.append(b"key", b"value") == 1


def test_a_user_without_the_transactional_id_writes_without_the_fence(
    broker: Broker, make_log: MakeLog, caplog: pytest.LogCaptureFixture
) -> None:
    log = make_log()
    with faults(broker) as faulty, caplog.at_level(logging.WARNING, "kqueue.schema_registry"):
        faulty.fail("InitProducerId", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
        log.claim()
    assert "may not write with transactional id" in caplog.text
    assert log.append(b"key", b"value") == 1


def test_the_sequence_begins_again_after_the_last_number(
    make_log: MakeLog, monkeypatch: pytest.MonkeyPatch, broker: Broker, topic: str
) -> None:
    monkeypatch.setattr(topic_log, "SEQUENCE_MAX", 1)
    log = make_log()
    log.claim()
    log.append(b"key", b"value")
    assert log._sequence == 0
