"""Stock clients with the arguments that `client_config` returns, over plain text and TLS."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import Consumer, KafkaException, Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

import kqueue
from kqueue.embedded.client_configs import CLIENTS
from kqueue.security.certificates import Authority
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.testing import faults
from kqueue.tests.thorough import corners

# kafka-python leaves the sockets of a client that finds no broker to the garbage collector
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
RoundTrip = Callable[[dict[str, Any], int], bytes]


def with_kafka_python(config: dict[str, Any], timeout_s: int) -> bytes:
    config = config | {"bootstrap_timeout_ms": timeout_s * 1000}
    with contextlib.closing(KafkaProducer(**config, max_block_ms=timeout_s * 1000)) as producer:
        producer.send("t", b"hello").get(timeout_s)
    consumer = KafkaConsumer("t", **config, auto_offset_reset="earliest", consumer_timeout_ms=timeout_s * 1000)
    with contextlib.closing(consumer):
        return bytes(next(consumer).value)


def with_aiokafka(config: dict[str, Any], timeout_s: int) -> bytes:
    async def work() -> bytes:
        producer = AIOKafkaProducer(**config)
        try:
            await producer.start()
            await producer.send_and_wait("t", b"hello")
        finally:
            await producer.stop()
        async with AIOKafkaConsumer("t", **config, auto_offset_reset="earliest") as consumer:
            return bytes((await asyncio.wait_for(consumer.getone(), timeout_s)).value)

    return asyncio.run(work())


def with_confluent_kafka(config: dict[str, Any], timeout_s: int) -> bytes:
    quiet = {"log_level": 0, "error_cb": lambda error: None}
    producer = Producer(config | quiet)
    producer.list_topics(timeout=timeout_s)
    producer.produce("t", b"hello")
    assert producer.flush(timeout_s) == 0
    with contextlib.closing(Consumer(config | quiet | {"group.id": "g", "auto.offset.reset": "earliest"})) as consumer:
        consumer.subscribe(["t"])
        [message] = consumer.consume(1, timeout_s)
        assert message.error() is None
        return bytes(message.value())


ROUND_TRIPS: dict[str, RoundTrip] = {
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
    "confluent-kafka": with_confluent_kafka,
}
FAILURES = (OSError, KafkaException, KafkaError, AioKafkaError)


@pytest.fixture(scope="module")
def secure() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(tls=True) as broker:
        yield broker


@pytest.fixture(params=list(CLIENTS))
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def refused(client: str, config: dict[str, Any]) -> None:
    with pytest.raises(FAILURES):
        ROUND_TRIPS[client](config, 2)


def test_client_of_a_plain_broker(client: str) -> None:
    with kqueue.Broker() as broker:
        assert ROUND_TRIPS[client](broker.client_config(client), 20) == b"hello"


def test_client_over_tls(client: str, secure: kqueue.Broker) -> None:
    assert ROUND_TRIPS[client](secure.client_config(client), 20) == b"hello"


def test_client_with_a_certificate_is_its_user(client: str, secure: kqueue.Broker) -> None:
    config = secure.client_config(client, user=f"CN=ann,OU={client}")
    assert ROUND_TRIPS[client](config, 20) == b"hello"


def test_client_without_a_certificate_is_refused_where_one_is_required(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    with kqueue.Broker(tls=True, settings={"ssl.client.auth": "required"}) as broker:
        assert ROUND_TRIPS[client](broker.client_config(client, user="ann"), 20) == b"hello"
        refused(client, broker.client_config(client))
    assert "peer did not return a certificate" in caplog.text


def test_client_with_a_certificate_of_another_authority_is_refused(
    client: str, caplog: pytest.LogCaptureFixture
) -> None:
    with kqueue.Broker(tls=True) as broker, kqueue.Broker(tls=True) as other:
        foreign = other.client_config(client, user="ann") | _addresses(broker.client_config(client))
        own = broker.client_config(client, user="ann")
        if client == "aiokafka":
            assert broker._security.certificates is not None
            foreign["ssl_context"].load_verify_locations(broker._security.certificates.authority_file)
        else:
            name = "ssl_cafile" if client == "kafka-python" else "ssl.ca.location"
            foreign[name] = own[name]
        refused(client, foreign)
    assert "its TLS handshake failed: certificate verify failed" in caplog.text


def _addresses(config: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in config.items() if name.startswith("bootstrap")}


def test_client_refuses_an_expired_certificate_until_it_is_renewed(client: str) -> None:
    with kqueue.Broker(tls=True) as broker:
        with faults(broker) as injected:
            injected.expire_certificate()
            refused(client, broker.client_config(client))
        assert ROUND_TRIPS[client](broker.client_config(client), 20) == b"hello"


def test_client_refuses_a_certificate_of_another_host(client: str, tmp_path: Any) -> None:
    authority = Authority.create()
    (tmp_path / "ca.pem").write_text(authority.certificate)
    pair = authority.issue("CN=broker", hosts=["elsewhere.example.com"])
    settings = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": pair.certificate,
        "ssl.keystore.key": pair.key,
    }
    with kqueue.Broker(settings=settings) as broker:
        config = broker.client_config(client)
        if client == "aiokafka":
            config["ssl_context"] = ssl.create_default_context(cafile=tmp_path / "ca.pem")
        else:
            config["ssl_cafile" if client == "kafka-python" else "ssl.ca.location"] = str(tmp_path / "ca.pem")
        refused(client, config)


def test_unknown_client_is_named() -> None:
    with kqueue.Broker() as broker, pytest.raises(ValueError, match="did you mean 'aiokafka'"):
        broker.client_config("aiokafak")


def test_expired_certificate_needs_a_broker_with_tls() -> None:
    with kqueue.Broker() as broker, faults(broker) as injected, pytest.raises(ValueError, match="tls=True"):
        injected.expire_certificate()


def test_restart_keeps_port_and_certificates(secure: kqueue.Broker) -> None:
    bootstrap = secure.bootstrap
    config = secure.client_config("kafka-python")
    secure.restart()
    assert secure.bootstrap == bootstrap
    assert with_kafka_python(config, 20) == b"hello"
    host, _, port = bootstrap.partition(":")
    with socket.create_connection((host, int(port))) as plain:
        context = ssl.create_default_context(cafile=config["ssl_cafile"])
        with context.wrap_socket(plain, server_hostname="localhost") as tls:
            assert tls.version() == "TLSv1.3"


@pytest.mark.parametrize("mechanism", corners(["PLAIN", "SCRAM-SHA-256"]))
def test_client_with_a_password_over_tls(client: str, mechanism: str, caplog: pytest.LogCaptureFixture) -> None:
    module = PLAIN_MODULE if mechanism == "PLAIN" else SCRAM_MODULE
    settings = {
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": mechanism,
        f"listener.name.sasl_ssl.{mechanism.lower()}.sasl.jaas.config": f'{module} required user_ann="secret";',
    }
    with kqueue.Broker(tls=True, settings=settings) as broker:
        config = broker.client_config(client, user="ann", password="secret", mechanism=mechanism)
        assert ROUND_TRIPS[client](config, 20) == b"hello"
        refused(client, broker.client_config(client, user="ann", password="guess", mechanism=mechanism))
    assert "secret" not in caplog.text
    assert "guess" not in caplog.text
