from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

import kqueue


def kafka_python(bootstrap: str) -> str:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    producer = KafkaProducer(bootstrap_servers=bootstrap, transactional_id="payments", max_block_ms=10_000)
    try:
        with pytest.raises(KafkaError) as caught:
            producer.init_transactions()
    finally:
        producer.close(timeout=0)
    return str(caught.value)


def aiokafka(bootstrap: str) -> str:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    async def begin() -> str:
        producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="payments")
        try:
            with pytest.raises(KafkaError) as caught:
                await producer.start()
        finally:
            await producer.stop()
        return str(caught.value)

    return asyncio.run(begin())


def librdkafka(bootstrap: str) -> str:
    confluent = pytest.importorskip("confluent_kafka")
    producer = confluent.Producer({"bootstrap.servers": bootstrap, "transactional.id": "payments", "log_level": 0})
    with pytest.raises(confluent.KafkaException) as caught:
        producer.init_transactions(30)
    assert caught.value.args[0].fatal()  # at once, not at the end of its two minutes
    return str(caught.value)


@pytest.mark.parametrize(
    ("client", "words"),
    [
        (kafka_python, "UnsupportedVersion"),
        (aiokafka, "UnsupportedVersion"),
        (librdkafka, "transactions are not served yet"),
    ],
)
def test_a_transactional_producer_is_refused_at_once_and_named_in_the_log(
    client: Callable[[str], str], words: str, caplog: pytest.LogCaptureFixture
) -> None:
    with kqueue.Broker() as broker, caplog.at_level(logging.WARNING, "kqueue.server"):
        assert words in client(broker.bootstrap)
    (line,) = {record.message.rpartition(":")[0] for record in caplog.records if record.name == "kqueue.server"}
    assert line == "transactions are not served yet: the producer with transactional.id 'payments' of 127.0.0.1"
    assert {record.levelname for record in caplog.records if record.name == "kqueue.server"} == {"WARNING"}
