"""A broker, or a cluster, that lets nobody in who does not authenticate, with a listener for each
way to do so, and some whose certificates no client may accept.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from joserfc import jwt
from joserfc.jwk import ECKey, KeySet

import kqueue
from compat_tests.clients.adapters.contract import Client, Config
from compat_tests.clients.brokers import SETTINGS
from compat_tests.waits import eventually
from kqueue.client import Client as OwnClient
from kqueue.client.calls.quotas import EntityParts, QuotaAlteration
from kqueue.config.client_security import ClientSecurity
from kqueue.security.acl_text import parse_acls
from kqueue.security.certificates import LOOPBACK_NAMES, Authority, write_private
from kqueue.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, format_jaas

SCRAM_SHA_256, SCRAM_SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = ("PLAIN", SCRAM_SHA_256, SCRAM_SHA_512, "OAUTHBEARER")
PLAINTEXT, TLS, MUTUAL, EXPIRED, ELSEWHERE, SHORT = "PLAIN_TEXT", "TLS", "MUTUAL", "EXPIRED", "ELSEWHERE", "SHORT"
LISTENERS = {
    PLAINTEXT: "SASL_PLAINTEXT",
    TLS: "SASL_SSL",
    MUTUAL: "SSL",
    EXPIRED: "SSL",
    ELSEWHERE: "SSL",
    SHORT: "SASL_PLAINTEXT",
}
"""Protocol by listener. MUTUAL: clients need a certificate. EXPIRED and ELSEWHERE: the broker's has
expired, or is one of other hosts. SHORT: sessions end after `SESSION_MS`.
"""
SESSION_MS = 1_500
"""Clients authenticate again when 85 % of it are over, and at most once a second."""
ADMIN = "ann"
USERS = {name: f"{name}'s secret" for name in (ADMIN, "broker", "bob", *(f"user-{number}" for number in range(100)))}
"""`ADMIN` and the brokers may do everything, the others nothing. By SCRAM there is only `ADMIN`."""
ISSUER, AUDIENCE = "https://idp.example", "kqueue"
WINDOWS = 2
"""Of a quota, of a second each: what a client had free at first is waited for soon."""


class Secured:
    """The running broker or cluster; users in `USERS`, certificates in `folder`."""

    def __init__(self, brokers: list[Any], folder: Path, key: ECKey, issue: Callable[[str], Path]) -> None:
        self._brokers = brokers
        self._folder = folder
        self._key = key
        self._issue = issue

    @property
    def members(self) -> int:
        """How many brokers there are."""
        return len(self._brokers)

    def bootstrap(self, listener: str) -> str:
        """Return the addresses of a listener, of all brokers."""
        return ",".join("{}:{}".format(*broker._server.endpoint(listener)) for broker in self._brokers)

    def forget_requests(self) -> None:
        """Count requests from here on; brokers remember a limited number."""
        for broker in self._brokers:
            broker.requests.clear()

    def count(self, api: str) -> int:
        """Return how many requests of an API the brokers were sent."""
        return sum(len(broker.requests(api=api)) for broker in self._brokers)

    def config(
        self,
        client: Client,
        user: str | None = None,
        *,
        listener: str = PLAINTEXT,
        mechanism: str = "PLAIN",
        password: str | None = None,
        client_id: str | None = None,
    ) -> Config:
        """Return the arguments that let a client connect as a user; None: as nobody."""
        protocol = LISTENERS[listener]
        named: dict[str, Any] = {"bootstrap": self.bootstrap(listener), "protocol": protocol}
        if protocol.endswith("SSL"):
            named["authority"] = str(self._folder / "ca.pem")
            if protocol == "SSL" and user is not None:
                named["keys"] = str(self._issue(user))
        config = dict(ARGUMENTS[client.name](**named))
        if client_id is not None:
            config["client.id" if client.name == "confluent-kafka" else "client_id"] = client_id
        if not protocol.startswith("SASL") or user is None:
            return config
        if mechanism == "OAUTHBEARER":
            expires_s = int(time.time()) + 600
            return {**config, **client.with_token(self.token(user, exp=expires_s), expires_s)}
        given = password or USERS[user]
        if client.name == "confluent-kafka":
            return {**config, "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": given}
        return {**config, "sasl_mechanism": mechanism, "sasl_plain_username": user, "sasl_plain_password": given}

    def token(self, user: str, **changes: Any) -> str:
        """Return a JSON Web Token of the identity provider."""
        now_s = int(time.time())
        claims = {"sub": user, "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + 600, **changes}
        return jwt.encode({"alg": "ES256", "kid": self._key.kid}, claims, self._key)

    @contextmanager
    def asking(self) -> Iterator[OwnClient]:
        """Open a client that may do everything."""
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": ADMIN,
            "sasl.password": USERS[ADMIN],
        }
        with OwnClient(self.bootstrap(PLAINTEXT), security=ClientSecurity.of(properties)) as client:
            yield client

    def allow(self, *lines: str) -> None:
        """Create ACLs from their text, ``User:bob allow read topic:t``; return once all brokers
        have them.
        """
        bindings = parse_acls(lines)
        with self.asking() as client:
            client.cluster.create_acls(bindings)
        stores = [broker._server.broker.security.acls for broker in self._brokers]
        eventually(lambda: all(set(bindings) <= set(one._by_id.values()) for one in stores), "all brokers have them")

    def bound(self, entity: EntityParts, **quotas: float) -> None:
        """Set quotas of an entity: ``{"user": "bob"}``."""
        with self.asking() as client:
            outcomes = client.cluster.alter_quotas([QuotaAlteration(entity, quotas)])
            assert [outcome.code for outcome in outcomes] == [0]

    def create_topic(self, name: str, partitions: int = 1) -> None:
        self._brokers[0].create_topic(name, partitions, replication_factor=-1)

    def end_offset(self, topic: str) -> int:
        """Return how many records were written to partition 0."""
        return max(broker.topics[topic].end_offsets.get(0, 0) for broker in self._brokers)


def _kafka_python(bootstrap: str, protocol: str, authority: str | None = None, keys: str | None = None) -> Config:
    files = {"ssl_cafile": authority, "ssl_certfile": keys, "ssl_keyfile": keys}
    given = {name: value for name, value in files.items() if value is not None}
    return {"bootstrap_servers": bootstrap, "security_protocol": protocol, **given}


def _aiokafka(bootstrap: str, protocol: str, authority: str | None = None, keys: str | None = None) -> Config:
    from aiokafka.helpers import create_ssl_context

    config: dict[str, Any] = {"bootstrap_servers": bootstrap, "security_protocol": protocol}
    if authority is not None:
        config["ssl_context"] = create_ssl_context(cafile=authority, certfile=keys, keyfile=keys)
    return config


def _confluent(bootstrap: str, protocol: str, authority: str | None = None, keys: str | None = None) -> Config:
    files = {"ssl.ca.location": authority, "ssl.certificate.location": keys, "ssl.key.location": keys}
    given = {name: value for name, value in files.items() if value is not None}
    return {"bootstrap.servers": bootstrap, "security.protocol": protocol, **given}


ARGUMENTS: Mapping[str, Callable[..., Config]] = {
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent,
}


def _settings(folder: Path) -> dict[str, object]:
    """Return the settings of each broker, whose certificates are in a folder."""
    settings: dict[str, object] = {
        **SETTINGS,
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in LISTENERS),
        "listener.security.protocol.map": ",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
        "inter.broker.listener.name": TLS,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.enabled.mechanisms": list(MECHANISMS),
        "connection.failed.authentication.delay.ms": 20,
        "sasl.oauthbearer.jwks.endpoint.url": (folder / "jwks.json").as_uri(),
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "authorizer.class.name": "standard",
        "super.users": f"User:{ADMIN};User:broker;User:CN={ADMIN}",
        "quota.window.num": WINDOWS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "broker.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": str(folder / "expired.pem"),
        "listener.name.elsewhere.ssl.keystore.location": str(folder / "elsewhere.pem"),
        "listener.name.short.scram-sha-256.connections.max.reauth.ms": SESSION_MS,
    }
    passwords = {f"user_{name}": password for name, password in USERS.items()}
    logins = {
        "PLAIN": format_jaas(PLAIN_MODULE, {"username": "broker", "password": USERS["broker"], **passwords}),
        SCRAM_SHA_256: format_jaas(SCRAM_MODULE, {f"user_{ADMIN}": USERS[ADMIN]}),
        SCRAM_SHA_512: format_jaas(SCRAM_MODULE, {f"user_{ADMIN}": USERS[ADMIN]}),
        "OAUTHBEARER": format_jaas(OAUTHBEARER_MODULE, {}),
    }
    for listener in (PLAINTEXT, TLS, SHORT):
        for mechanism, login in logins.items():
            settings[f"listener.name.{listener.lower()}.{mechanism.lower()}.sasl.jaas.config"] = login
    return settings


@contextmanager
def serving_secured(folder: Path, *, cluster: bool) -> Iterator[Secured]:
    """Run kqueue in this process, in memory, on free ports."""
    authority, key = Authority.create(), ECKey.generate_key("P-256", parameters={"kid": "one"})
    write_private(folder / "ca.pem", authority.certificate)
    for name, hosts, days in (
        ("broker", LOOPBACK_NAMES, 1),
        ("expired", LOOPBACK_NAMES, -1),
        ("elsewhere", ["kafka.example"], 1),
    ):
        write_private(folder / f"{name}.pem", authority.issue("CN=broker", hosts=hosts, days=days).pem)
    (folder / "jwks.json").write_text(json.dumps(KeySet([key]).as_dict(private=False)))

    def issue(user: str) -> Path:
        path = folder / f"user-{user}.pem"
        if not path.exists():
            write_private(path, authority.issue(user).pem)
        return path

    if cluster:
        with kqueue.Cluster(brokers=3, settings=_settings(folder)) as running:
            yield Secured(list(running.brokers), folder, key, issue)
        return
    with kqueue.Broker(settings=_settings(folder)) as broker:
        yield Secured([broker], folder, key, issue)
