"""A Kafka and a kqueue with the same security settings: listeners for each way to authenticate, and
listeners whose certificates are wrong.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import kqueue
from compat_tests.kafka.node import Kafka, free_ports
from compat_tests.kafka.serving import SETTINGS
from kqueue.security.certificates import Authority, Certificate
from kqueue.security.jaas import OAUTHBEARER_MODULE, PLAIN_MODULE, SCRAM_MODULE, format_jaas
from kqueue.security.sasl.token_validators import UNSECURED_HANDLER
from kqueue.tests.security.sasl.token_maker import jwks, rsa_key, signed

PASSWORD = "secret"
ADMIN = "admin"
PLAIN_USERS = (ADMIN, "ann", "eve", "reader", "writer", "describer", "operator", "fast-producer", "fast-consumer")
AUDIENCE = "brokers"
OAUTH_HANDLERS = "org.apache.kafka.common.security.oauthbearer"
REAUTH_MS = 2000
QUOTA_WINDOWS = 2
_PROTOCOLS = {
    "PLAINTEXT": "PLAINTEXT",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "REAUTH": "SASL_PLAINTEXT",
    "SCRAM_ONLY": "SASL_PLAINTEXT",
    "SSL": "SSL",
    "EXPIRED": "SSL",
    "ELSEWHERE": "SSL",
}
SASL_LISTENERS = tuple(name for name, protocol in _PROTOCOLS.items() if protocol.startswith("SASL"))
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = ("PLAIN", *SCRAM, "OAUTHBEARER")
MODULES = {"PLAIN": PLAIN_MODULE, **dict.fromkeys(SCRAM, SCRAM_MODULE), "OAUTHBEARER": OAUTHBEARER_MODULE}


@dataclass
class Secrets:
    """Certificates, keys and tokens, as files in `folder`."""

    folder: Path

    def __post_init__(self) -> None:
        authority, other = Authority.create(), Authority.create("CN=another authority")
        here = ("localhost", "127.0.0.1")
        self._write("ca", authority.pair, certificate_only=True)
        self._write("other-ca", other.pair, certificate_only=True)
        self._write("broker", authority.issue("CN=broker", hosts=here))
        self._write("broker-expired", authority.issue("CN=broker", hosts=here, days=-1))
        self._write("broker-elsewhere", authority.issue("CN=broker", hosts=["broker.example.com"]))
        self._write("ann", authority.issue("CN=Ann,O=example"))
        self._write("ann-expired", authority.issue("CN=Ann,O=example", days=-1))
        self._write("ann-of-another", other.issue("CN=Ann,O=example"))
        (self.folder / "jwks.json").write_text(jwks(rsa_key()))
        now = int(time.time())
        claims = {"sub": "ann", "aud": AUDIENCE, "iat": now, "exp": now + 3600}
        tokens = {
            "good": signed(claims),
            "forged": signed(claims, rsa_key("one-forged"), kid="one"),
            "for-others": signed({**claims, "aud": "others"}),
        }
        for name, token in tokens.items():
            (self.folder / f"{name}.jwt").write_text(token)

    def pem(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    def url(self, name: str) -> str:
        return f"file:{self.folder / name}"

    def _write(self, name: str, pair: Certificate, *, certificate_only: bool = False) -> None:
        Path(self.pem(name)).write_text(pair.certificate if certificate_only else pair.pem)

    def key_store(self, name: str, prefix: str = "") -> dict[str, object]:
        """The settings of a key and its certificate, for brokers and Java clients."""
        return {f"{prefix}ssl.keystore.type": "PEM", f"{prefix}ssl.keystore.location": self.pem(name)}

    def trust_store(self, name: str = "ca") -> dict[str, object]:
        return {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.pem(name)}


def security_settings(secrets: Secrets) -> dict[str, object]:
    """What both brokers have, besides their addresses."""
    settings: dict[str, object] = {
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in {"CONTROLLER": "PLAINTEXT", **_PROTOCOLS}.items()
        ),
        "inter.broker.listener.name": "PLAINTEXT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.ssl.ssl.principal.mapping.rules": "RULE:^CN=([^,]*),O=example$/$1/L,DEFAULT",
        **secrets.trust_store(),
        **secrets.key_store("broker"),
        **secrets.key_store("broker-expired", "listener.name.expired."),
        **secrets.key_store("broker-elsewhere", "listener.name.elsewhere."),
        "listener.name.scram_only.sasl.enabled.mechanisms": ",".join(SCRAM),
        "listener.name.reauth.connections.max.reauth.ms": REAUTH_MS,
        # many fail on purpose
        "connection.failed.authentication.delay.ms": 1,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{ADMIN}",
        "delegation.token.secret.key": "the brokers' key",
        "auto.create.topics.enable": "true",
        "group.coordinator.rebalance.protocols": "classic,consumer,streams,share",
        "quota.window.num": QUOTA_WINDOWS,
    }
    users = format_jaas(PLAIN_MODULE, {f"user_{name}": PASSWORD for name in PLAIN_USERS})
    for listener in SASL_LISTENERS:
        prefix = f"listener.name.{listener.lower()}."
        settings[f"{prefix}plain.sasl.jaas.config"] = users
        for mechanism in SCRAM:
            settings[f"{prefix}{mechanism.lower()}.sasl.jaas.config"] = format_jaas(SCRAM_MODULE, {})
        own = {"unsecuredLoginStringClaim_sub": "broker"} if listener != "SASL_SSL" else {}
        settings[f"{prefix}oauthbearer.sasl.jaas.config"] = format_jaas(OAUTHBEARER_MODULE, own)
        settings[f"{prefix}oauthbearer.sasl.server.callback.handler.class"] = UNSECURED_HANDLER
    prefix = "listener.name.sasl_ssl.oauthbearer.sasl."
    return settings | {
        f"{prefix}server.callback.handler.class": f"{OAUTH_HANDLERS}.OAuthBearerValidatorCallbackHandler",
        f"{prefix}oauthbearer.jwks.endpoint.url": secrets.url("jwks.json"),
        f"{prefix}oauthbearer.expected.audience": AUDIENCE,
    }


@dataclass(frozen=True)
class Secured:
    """A broker that runs. `name`: ``kafka`` or ``kqueue``."""

    name: str
    ports: Mapping[str, int]
    secrets: Secrets

    def bootstrap(self, listener: str = "PLAINTEXT") -> str:
        return f"127.0.0.1:{self.ports[listener]}"

    def client(self, listener: str, **more: object) -> dict[str, object]:
        """The settings of a Java client; `more` with `_` for `.`."""
        protocol = _PROTOCOLS[listener]
        settings = {"bootstrap.servers": self.bootstrap(listener), "security.protocol": protocol}
        if protocol.endswith("SSL"):
            settings |= self.secrets.trust_store()
        return settings | {name.replace("_", "."): value for name, value in more.items()}

    def user(
        self, listener: str, mechanism: str, name: str, password: str = PASSWORD, **more: object
    ) -> dict[str, object]:
        """The settings of a Java client that authenticates by SASL, OAUTHBEARER by an unsecured
        token.
        """
        options = {"username": name, "password": password}
        if mechanism == "OAUTHBEARER":
            options = {"unsecuredLoginStringClaim_sub": name}
        login = format_jaas(MODULES[mechanism], options)
        return self.client(listener, sasl_mechanism=mechanism, sasl_jaas_config=login, **more)

    def token(self, name: str) -> dict[str, object]:
        """The settings of a Java client with a signed token."""
        return self.client(
            "SASL_SSL",
            sasl_mechanism="OAUTHBEARER",
            sasl_jaas_config=format_jaas(OAUTHBEARER_MODULE, {}),
            sasl_login_callback_handler_class=f"{OAUTH_HANDLERS}.OAuthBearerLoginCallbackHandler",
            sasl_oauthbearer_token_endpoint_url=self.secrets.url(f"{name}.jwt"),
        )


@contextmanager
def secured_pair(folder: Path, template: Kafka) -> Iterator[tuple[Secured, Secured]]:
    """Run both. `template`: a formatted node to copy."""
    (folder / "secrets").mkdir()
    secrets = Secrets(folder / "secrets")
    settings = security_settings(secrets)
    ports = dict(zip(_PROTOCOLS, [template.ports[0], *free_ports(len(_PROTOCOLS) - 1)], strict=True))
    addresses = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    of_kafka = {
        "listeners": f"{addresses},CONTROLLER://127.0.0.1:{template.ports[1]}",
        "advertised.listeners": addresses,
    }
    node = Kafka(folder / "kafka", settings={**settings, **of_kafka}).copy_from(template)
    with _java_options(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={secrets.url('jwks.json')}"):
        node.start()
    own_ports = dict(zip(_PROTOCOLS, free_ports(len(_PROTOCOLS)), strict=True))
    own = {"listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in own_ports.items())}
    try:
        with kqueue.Broker(folder / "kqueue", settings={**SETTINGS, **settings, **own}):
            yield Secured("kafka", ports, secrets), Secured("kqueue", own_ports, secrets)
    finally:
        node.kill()


@contextmanager
def _java_options(options: str) -> Iterator[None]:
    """Give options to the JVMs that start here."""
    before = os.environ.get("JDK_JAVA_OPTIONS")
    os.environ["JDK_JAVA_OPTIONS"] = options
    try:
        yield
    finally:
        if before is None:
            del os.environ["JDK_JAVA_OPTIONS"]
        else:
            os.environ["JDK_JAVA_OPTIONS"] = before
