"""Kafka's client properties of TLS and SASL."""

from __future__ import annotations

import pickle
import ssl

import pytest

from kqueue.base.errors import SettingError
from kqueue.config.client_security import ClientSecurity, kafka_python_arguments
from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import SaslLogin
from kqueue.tests.tables import for_each

JAAS = f'{PLAIN_MODULE} required username="ann" password="secret";'
SASL = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def test_plain_text_is_the_default_and_other_properties_are_ignored() -> None:
    plain = ClientSecurity.of({"bootstrap.servers": "x:1", "ssl.truststore.location": "/missing"})
    assert plain == ClientSecurity()
    assert kafka_python_arguments(plain) == {}


def test_users_come_from_either_form() -> None:
    login = SaslLogin("PLAIN", "ann", "secret")
    assert ClientSecurity.of({**SASL, "sasl.jaas.config": JAAS}).login == login
    named = ClientSecurity.of({**SASL, "sasl.username": "ann", "sasl.password": "secret"})
    assert named.login == login
    assert "secret" not in repr(named)
    assert pickle.loads(pickle.dumps(named)) == named
    assert kafka_python_arguments(named) == {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "ann",
        "sasl_plain_password": "secret",
    }


def test_tls_checks_names_unless_told_otherwise() -> None:
    checked = ClientSecurity.of({"security.protocol": "ssl"})
    assert checked.protocol is SecurityProtocol.SSL
    assert checked.tls is not None
    assert checked.tls.check_host
    unnamed = ClientSecurity.of({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": ""})
    context = kafka_python_arguments(unnamed)["ssl_context"]
    assert isinstance(context, ssl.SSLContext)
    assert not context.check_hostname
    keys = ClientSecurity.of({"security.protocol": "SSL", "ssl.keystore.key": "shown?", "ssl.key.password": "secret"})
    assert "shown?" not in repr(keys)
    assert "secret" not in repr(keys)


@for_each(
    "given, message",
    [
        ({"security.protocol": "TLS"}, "security.protocol=TLS: expected one of"),
        ({"ssl.trustore.location": "x"}, "did you mean 'ssl.truststore.location'"),
        ({"securty.protocol": "SSL"}, "did you mean 'security.protocol'"),
        ({"sals.jaas.config": "secret"}, "did you mean 'sasl.jaas.config'"),
        ({"keystore.location": "x"}, "did you mean 'ssl.keystore.location'"),
        ({**SASL, "sasl.mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: expected one of"),
        ({**SASL, "sasl.username": "ann"}, "PLAIN needs sasl.jaas.config, or sasl.username and sasl.password"),
        ({**SASL, "sasl.jaas.config": f'{SCRAM_MODULE} required username="a" password="secret";'}, "the login module"),
        ({"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1"}, "expected TLSv1.2, TLSv1.3, or both"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "x"}, "expected https, or nothing"),
    ],
)
def test_wrong_security_setting_is_named_without_secrets(given: dict[str, str], message: str) -> None:
    with pytest.raises(SettingError) as raised:
        ClientSecurity.of(given)
    assert message in str(raised.value)
    assert "secret" not in str(raised.value)


def test_tokens_are_refused_by_kafka_python() -> None:
    jaas = f'{SCRAM_MODULE} required username="id" password="hmac" tokenauth=true;'
    security = ClientSecurity.of({**SASL, "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas})
    with pytest.raises(SettingError, match="delegation token"):
        kafka_python_arguments(security)
