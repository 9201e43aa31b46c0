"""TLS and SASL of kqueue's own client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import EARLIEST, Client, TopicPartition
from kqueue.client.errors import NotAuthenticated
from kqueue.config.client_security import ClientSecurity
from kqueue.embedded.development_certificates import DevelopmentCertificates
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.tests.client.serving import batch
from kqueue.tests.waits import eventually

USERS = 'user_ann="secret";'
SESSION_MS = 1_000


@pytest.fixture(scope="module")
def certificates() -> DevelopmentCertificates:
    return DevelopmentCertificates()


@pytest.fixture(scope="module")
def broker(certificates: DevelopmentCertificates) -> Iterator[kqueue.Broker]:
    settings = {
        **certificates.settings,
        "listeners": "SASL_SSL://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
        "connections.max.reauth.ms": SESSION_MS,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {USERS}",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{SCRAM_MODULE} required {USERS}",
    }
    with kqueue.Broker(settings=settings) as broker:
        yield broker


def security(certificates: DevelopmentCertificates, **more: str) -> ClientSecurity:
    return ClientSecurity.of(
        {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.authority_file,
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.username": "ann",
            "sasl.password": "secret",
            **more,
        }
    )


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_records_larger_than_all_buffers(
    broker: kqueue.Broker, certificates: DevelopmentCertificates, mechanism: str
) -> None:
    topic = f"large-{mechanism}"
    broker.create_topic(topic, max_message_bytes=8_000_000)
    partition = TopicPartition(topic, 0)
    value = b"x" * 5_000_000
    asked = security(certificates, **{"sasl.mechanism": mechanism})
    with Client(broker.bootstrap, security=asked) as client:
        client.produce({partition: batch([value])})
        fetched = client.fetch({partition: client.offsets({partition: EARLIEST})[partition].offset})
        assert value in bytes(fetched[partition].records)


def test_a_session_that_ends_is_replaced(broker: kqueue.Broker, certificates: DevelopmentCertificates) -> None:
    with Client(broker.bootstrap, security=security(certificates)) as client:
        before = len(broker.requests(api="SaslAuthenticate"))

        def served_in_another_session() -> bool:
            client.metadata()
            return len(broker.requests(api="SaslAuthenticate")) > before

        client.metadata()
        eventually(served_in_another_session)


def test_a_wrong_password_is_reported_at_once(broker: kqueue.Broker, certificates: DevelopmentCertificates) -> None:
    asked = security(certificates, **{"sasl.password": "guessed"})
    with Client(broker.bootstrap, security=asked, timeout_ms=3_600_000) as client:
        with pytest.raises(NotAuthenticated, match="user ann is not authenticated") as raised:
            client.metadata()
        assert "guessed" not in str(raised.value)
        assert "guessed" not in repr(client.options)


def test_the_systems_authorities_do_not_know_it(broker: kqueue.Broker) -> None:
    asked = ClientSecurity.of({"security.protocol": "SSL"})
    with (
        Client(broker.bootstrap, security=asked) as client,
        pytest.raises(NotAuthenticated, match=r"set ssl\.truststore\.location"),
    ):
        client.metadata()


def test_a_client_without_tls_is_told(broker: kqueue.Broker) -> None:
    with (
        Client(broker.bootstrap) as client,
        pytest.raises(Exception, match=r"needs security\.protocol"),
    ):
        client.metadata(timeout_ms=3000)
