"""Java clients of a secured broker: who connects, who must not, and who is slowed down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from compat_tests.kafka.secured import MECHANISMS, SCRAM, Secured

TOPIC, PRODUCE_TOPIC, FETCH_TOPIC = "greetings", "written-slowly", "read-slowly"
BYTES_PER_S = 50_000
PRODUCER_USER, CONSUMER_USER = "fast-producer", "fast-consumer"


OK = "ok"
WRONG_USER = "SaslAuthenticationException"
WRONG_CERTIFICATE = "SslAuthenticationException"
RENEWED = "0 true 0"
"""No record failed, it authenticated again, no authentication failed."""
Connecting = Iterator[tuple[str, dict[str, object], str]]


class Scenario(NamedTuple):
    """One client of `SecurityCalls.java`. `expected`: its result; None: a number."""

    name: str
    action: str
    topic: str
    settings: dict[str, object]
    expected: str | None = None

    def line(self, broker: Secured) -> str:
        pairs = (f"{name}={value}" for name, value in self.settings.items())
        return "\t".join([f"{broker.name} {self.name}", self.action, self.topic, *pairs])


def scenarios(broker: Secured) -> list[Scenario]:
    """What runs against each of the brokers."""
    cases = [
        Scenario(PRODUCER_USER, "produce", PRODUCE_TOPIC, broker.user("SASL_SSL", "PLAIN", PRODUCER_USER)),
        Scenario(CONSUMER_USER, "fetch", FETCH_TOPIC, broker.user("SASL_PLAINTEXT", "PLAIN", CONSUMER_USER)),
    ]
    for mechanism in MECHANISMS:
        settings = broker.user("REAUTH", mechanism, "ann")
        cases.append(Scenario(f"{mechanism} renewed", "renew", TOPIC, settings, RENEWED))
    for part in (_sasl(broker), _tls(broker)):
        # the producer, the consumer and the admin client have the same result
        cases += [Scenario(name, "connect", TOPIC, own, f"{result} {result} {result}") for name, own, result in part]
    return cases


def _sasl(broker: Secured) -> Connecting:
    for listener in ("SASL_PLAINTEXT", "SASL_SSL"):
        for mechanism in ("PLAIN", *SCRAM):
            name = f"{listener} {mechanism}"
            yield name, broker.user(listener, mechanism, "ann"), OK
            yield f"{name}, wrong password", broker.user(listener, mechanism, "ann", "a guess"), WRONG_USER
            yield f"{name}, unknown user", broker.user(listener, mechanism, "nobody"), WRONG_USER
    yield "SASL_PLAINTEXT OAUTHBEARER", broker.user("SASL_PLAINTEXT", "OAUTHBEARER", "ann"), OK
    for token, result in (("good", OK), ("forged", WRONG_USER), ("for-others", WRONG_USER)):
        yield f"SASL_SSL OAUTHBEARER, token {token}", broker.token(token), result
    yield "SASL_SSL OAUTHBEARER, token unsecured", broker.user("SASL_SSL", "OAUTHBEARER", "ann"), WRONG_USER
    yield "mechanism not enabled", broker.user("SCRAM_ONLY", "PLAIN", "ann"), "UnsupportedSaslMechanismException"
    yield "no rights", broker.user("SASL_PLAINTEXT", "PLAIN", "eve"), "TopicAuthorizationException"


def _tls(broker: Secured) -> Connecting:
    secrets, ann = broker.secrets, broker.secrets.key_store("ann")
    for version in ("TLSv1.2", "TLSv1.3"):
        client = broker.client("SSL", ssl_enabled_protocols=version)
        yield f"SSL, {version}", client | ann, OK
        yield f"SSL, client certificate missing, {version}", client, WRONG_CERTIFICATE
        for wrong in ("ann-expired", "ann-of-another"):
            yield f"SSL, {wrong}, {version}", client | secrets.key_store(wrong), WRONG_CERTIFICATE
    others = secrets.trust_store("other-ca")
    yield "SSL, authority unknown to the client", broker.client("SSL") | ann | others, WRONG_CERTIFICATE
    unknown = broker.user("SASL_SSL", "PLAIN", "ann") | others
    yield "SASL_SSL, authority unknown to the client", unknown, WRONG_CERTIFICATE
    for listener in ("EXPIRED", "ELSEWHERE"):
        yield f"SSL, broker's certificate {listener.lower()}", broker.client(listener) | ann, WRONG_CERTIFICATE
    # nobody asks for a certificate there: it is ANONYMOUS, a super user
    yield "SSL, host name not checked", broker.client("ELSEWHERE", ssl_endpoint_identification_algorithm=""), OK
