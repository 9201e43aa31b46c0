from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from kqueue.config.token_login import TokenLogin
from kqueue.security.sasl.login import SaslLogin
from kqueue.spark.errors import OptionError
from kqueue.spark.options import Option, OptionTable, nonempty, one_of, security_of
from kqueue.tests.tables import for_each

TABLE = OptionTable(
    (
        Option("subscribe", nonempty, None, "both", "Topics."),
        Option("groupId", nonempty, None, "stream", "A group."),
        Option("decoder", one_of("auto", "fast"), "auto", "batch", "Which loops."),
    ),
    ("pollTimeoutMs",),
    {"kafka.interceptor.classes": "there is no Java"},
    prefix="asyncprogress",
)


def values(*, streaming: bool = True, **given: str) -> dict[str, object]:
    named = {name.replace("_", "."): text for name, text in given.items()}
    return TABLE.values(named, streaming=streaming, misplaced=lambda option: f"{option.name} is misplaced")


def test_options_have_defaults_and_names_in_any_case() -> None:
    assert values() == {"subscribe": None, "groupId": None, "decoder": "auto"}
    assert values(SUBSCRIBE=" orders ", groupid="mail") == {"subscribe": "orders", "groupId": "mail", "decoder": "auto"}
    assert values(streaming=False, Decoder="FAST")["decoder"] == "fast"


def test_options_without_a_meaning_are_ignored() -> None:
    given = {"polltimeoutms": "1", "asyncProgressTrackingEnabled": "true", "kafka_security_protocol": "plaintext"}
    assert values(**given) == values()


@for_each(
    "given, message",
    [
        ({"subscribe": " "}, "^subscribe is empty$"),
        ({"decoder": "fast"}, "^decoder is misplaced$"),
        ({"grupId": "x"}, "^there is no option 'grupId'; did you mean 'groupId'"),
        ({"kafka_interceptor_classes": "x"}, "^kafka.interceptor.classes is not supported: there is no Java$"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        values(**given)


def test_unknown_choice_is_refused_with_the_known_ones() -> None:
    with pytest.raises(OptionError, match="^decoder: expected auto or fast, found 'slow'$"):
        values(streaming=False, decoder="slow")


JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="ann" password="hunter2word";'
SCRAM = {
    "kafka.security.protocol": "sasl_ssl",
    "kafka.ssl.truststore.type": "PEM",
    "Kafka.SSL.Truststore.Location": "ca.pem",
    "kafka.ssl.keystore.type": "PEM",
    "kafka.ssl.keystore.key": "hunter2key",
    "kafka.ssl.keystore.certificate.chain": "hunter2chain",
    "kafka.ssl.endpoint.identification.algorithm": "",
    "kafka.sasl.mechanism": "SCRAM-SHA-512",
    "kafka.sasl.jaas.config": JAAS,
    "kafka.sasl.login.refresh.window.factor": "0.8",
    "kafka.ssl.protocol": "TLSv1.3",
    "subscribe": "orders",
}


def test_tls_and_sasl_go_by_the_names_of_sparks_source_and_show_no_secret() -> None:
    security = security_of(SCRAM)
    assert security is not None
    assert security.protocol.name == "SASL_SSL"
    assert isinstance(security.login, SaslLogin)
    assert (security.login.mechanism, security.login.user, security.login.password) == (
        "SCRAM-SHA-512",
        "ann",
        "hunter2word",
    )
    assert security.tls is not None
    assert security.tls.trusted.location == "ca.pem"
    assert security.tls.keys.key == "hunter2key"
    assert not security.tls.check_host
    assert pickle.loads(pickle.dumps(security)) == security
    assert "hunter2" not in repr(security)


TOKENS = {
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "OAUTHBEARER",
    "kafka.sasl.oauthbearer.token.endpoint.url": "https://idp.example/token",
    "kafka.sasl.oauthbearer.client.credentials.client.id": "ann",
    "kafka.sasl.oauthbearer.client.credentials.client.secret": "hunter2word",
    "kafka.sasl.oauthbearer.expected.audience": "kqueue",
}


def test_files_travel_with_the_options(tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    file.write_text("what it has")
    security = security_of({**SCRAM, "kafka.ssl.truststore.location": str(file)})
    assert security is not None
    assert security.tls is not None
    assert security.tls.trusted.content == b"what it has"
    assert pickle.loads(pickle.dumps(security)) == security
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    jaas = f'{module} required ssl.truststore.type="PEM" ssl.truststore.location="{file}";'
    security = security_of({**TOKENS, "kafka.sasl.jaas.config": jaas})
    assert security is not None
    assert isinstance(security.login, TokenLogin)
    assert security.login.tls is not None
    assert security.login.tls.trusted.content == b"what it has"


def test_a_token_comes_from_an_identity_provider() -> None:
    security = security_of(TOKENS)
    assert security is not None
    assert isinstance(security.login, TokenLogin)
    assert (security.login.url, security.login.client_secret) == ("https://idp.example/token", "hunter2word")
    assert pickle.loads(pickle.dumps(security)) == security
    assert "hunter2" not in repr(security)


def test_plain_text_needs_no_security() -> None:
    assert security_of({"subscribe": "orders"}) is None
    assert security_of({"kafka.security.protocol": "plaintext", "kafka.sasl.mechanism": "PLAIN"}) is None


@for_each(
    "given, message",
    [
        ({"kafka.security.protocol": "TLS"}, "^kafka.security.protocol=TLS: expected one of PLAINTEXT, SSL"),
        ({"kafka.ssl.trustore.location": "x"}, "called 'kafka.ssl.trustore.location'; .* 'kafka.ssl.truststore.loc"),
        ({"kafka.sasl.mechanism": "GSSAPI"}, "^kafka.sasl.mechanism=GSSAPI: expected one of PLAIN, SCRAM-SHA-256"),
        ({"kafka.sasl.jaas.config": "hunter2word"}, "kafka.sasl.jaas.config"),
        ({"kafka.sasl.kerberos.service.name": "kafka"}, "^kafka.sasl.kerberos.service.name is not supported: Kerberos"),
        ({"kafka.sasl.login.class": "x.Y"}, "^kafka.sasl.login.class is not supported: there is no Java"),
        ({"kafka.sasl.oauthbearer.assertion.file": "x"}, "^kafka.sasl.oauthbearer.assertion.file is not supported"),
        ({"kafka.sasl.oauthbearer.scop": "x"}, "did you mean 'kafka.sasl.oauthbearer.scope'"),
    ],
)
def test_wrong_security_is_named_without_a_secret(given: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message) as raised:
        security_of(SCRAM | given)
    assert "hunter2" not in str(raised.value)
    assert raised.value.__cause__ is None
