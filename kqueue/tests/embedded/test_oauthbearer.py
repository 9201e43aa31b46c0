"""OAUTHBEARER with an identity provider over HTTPS that has an authority of its own: stock clients
with their token callbacks, kqueue's commands, and tokens that are refused.
"""

from __future__ import annotations

import base64
import hmac
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from joserfc.jwk import RSAKey

import kqueue
from kqueue.base.errors import SettingError
from kqueue.cli.app import kqueue as root
from kqueue.client import Client
from kqueue.client.errors import NotAuthenticated
from kqueue.config.client_security import ClientSecurity
from kqueue.security.jaas import OAUTHBEARER_MODULE, format_jaas
from kqueue.tests.embedded.identity_provider import (
    AUDIENCE,
    CLIENT_ID,
    CLIENT_SECRET,
    ISSUER,
    SCOPE,
    IdentityProvider,
)
from kqueue.tests.embedded.test_client_configs import FAILURES, ROUND_TRIPS
from kqueue.tests.security.sasl.token_maker import rsa_key, unsecured
from kqueue.tests.waits import HangLimit, eventually

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
OWN = "listener.name.sasl_plaintext.oauthbearer."
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"
RETRY_MS_MAX = 200


def settings(provider: IdentityProvider, **options: str) -> dict[str, object]:
    return {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "connection.failed.authentication.delay.ms": 0,
        "sasl.oauthbearer.jwks.endpoint.url": f"{provider.url}/keys",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": 20,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": RETRY_MS_MAX,
        "sasl.oauthbearer.expected.issuer": ISSUER,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "kqueue.sasl.oauthbearer.required.scope": SCOPE,
        f"{OWN}sasl.jaas.config": format_jaas(OAUTHBEARER_MODULE, options or provider.trust_options()),
    }


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IdentityProvider]:
    provider = IdentityProvider(tmp_path_factory.mktemp("idp"))
    yield provider
    provider.close()


@pytest.fixture
def provider(shared: IdentityProvider) -> IdentityProvider:
    shared.key = rsa_key()
    shared.status = 200
    shared.grants.clear()
    return shared


@pytest.fixture(scope="module")
def broker(shared: IdentityProvider) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(settings=settings(shared)) as broker:
        broker.create_topic("t")
        yield broker


def security(**more: str) -> ClientSecurity:
    return ClientSecurity.of({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER", **more})


@pytest.fixture
def ask(broker: kqueue.Broker, tmp_path: Path) -> Callable[..., None]:
    """Authenticate by a token of a file. Raises NotAuthenticated."""

    def ask(token: str, to: kqueue.Broker = broker) -> None:
        file = tmp_path / "a token"
        file.write_text(token + "\n")
        asked = security(**{"sasl.oauthbearer.token.endpoint.url": file.as_uri()})
        with Client(to.bootstrap, security=asked) as client:
            client.metadata()

    return ask


def until_accepted(ask: Callable[[], None]) -> None:
    limit = HangLimit("an accepted token")
    while True:
        try:
            return ask()
        except NotAuthenticated:
            limit.check()


def by_public_key(claims: str) -> str:
    """Return a token that whoever has the public key can make, if HS256 is accepted with it."""
    header = {"alg": "HS256", "kid": rsa_key().kid}
    parts = ".".join([encoded(json.dumps(header).encode()), claims])
    return f"{parts}.{encoded(hmac.digest(rsa_key().as_pem(private=False), parts.encode(), 'sha256'))}"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def test_stock_clients_ask_their_callback_for_tokens(provider: IdentityProvider, broker: kqueue.Broker, ask) -> None:
    until_accepted(lambda: ask(provider.token()))
    for name, round_trip in ROUND_TRIPS.items():
        asked: list[str] = []

        def token(user: str = name, asked: list[str] = asked) -> str:
            asked.append(user)
            return provider.token(sub=user)

        config = broker.client_config(name, token=token)
        assert round_trip(config, 20) == b"hello"
        assert asked


def test_stock_clients_with_a_refused_token_report_it(provider: IdentityProvider, broker: kqueue.Broker) -> None:
    for name, round_trip in ROUND_TRIPS.items():
        with pytest.raises(FAILURES):
            round_trip(broker.client_config(name, token=lambda: provider.token(aud="another")), 1)


def own_key() -> RSAKey:
    """Return another key with the name of the provider's."""
    return RSAKey.generate_key(2048, parameters={"kid": "one"})


BAD: dict[str, tuple[Callable[[IdentityProvider], str], str]] = {
    "issuer": (lambda idp: idp.token(iss="https://evil.example"), "(iss)"),
    "no issuer": (lambda idp: idp.token(iss=None), "(iss)"),
    "audience": (lambda idp: idp.token(aud="another"), "(aud)"),
    "no audience": (lambda idp: idp.token(aud=None), "(aud)"),
    "expired": (lambda idp: idp.token(exp=int(time.time()) - 31), "(exp)"),
    "no end": (lambda idp: idp.token(exp=None), "no exp"),
    "not yet": (lambda idp: idp.token(nbf=int(time.time()) + 60), "(nbf)"),
    "scope": (lambda idp: idp.token(scope="read streams"), "(scope)"),
    "subject": (lambda idp: idp.token(sub=None), "(sub)"),
    "alg none": (lambda idp: unsecured(idp.claims()), "not a token signed by"),
    "public key as a secret": (lambda idp: by_public_key(idp.token().split(".")[1]), "not a token signed by"),
    "a key of one's own": (lambda idp: idp.token(key=own_key()), "signed by"),
    "other claims": (lambda idp: forged(idp), "signed by"),
}


def forged(provider: IdentityProvider) -> str:
    header, _, signature = provider.token().split(".")
    return ".".join([header, encoded(json.dumps(provider.claims(sub="root")).encode()), signature])


@pytest.mark.parametrize("name", BAD)
def test_a_token_that_breaks_a_rule_is_refused(name: str, provider: IdentityProvider, ask, caplog) -> None:
    until_accepted(lambda: ask(provider.token()))
    make, reason = BAD[name]
    token = make(provider)
    with pytest.raises(NotAuthenticated, match="invalid_token") as raised:
        ask(token)
    assert token not in str(raised.value)
    eventually(lambda: reason in caplog.text)
    assert token not in caplog.text


def test_a_new_key_of_the_provider_is_read_when_a_token_names_it(provider: IdentityProvider, ask) -> None:
    until_accepted(lambda: ask(provider.token()))
    old = provider.token()
    provider.key = rsa_key("rotated")
    until_accepted(lambda: ask(provider.token()))
    with pytest.raises(NotAuthenticated):
        ask(old)


def test_while_the_provider_is_down_the_last_keys_are_used(provider: IdentityProvider, broker, ask, caplog) -> None:
    until_accepted(lambda: ask(provider.token()))
    provider.status = 503
    unknown = provider.token(key=rsa_key("unknown"))
    limit = HangLimit("a failed read of the keys")
    while f"{provider.url}/keys: Service Unavailable" not in caplog.text:
        limit.check()
        with pytest.raises(NotAuthenticated):
            ask(unknown)
        ask(provider.token())
    provider.status = 200
    provider.key = rsa_key("after")
    until_accepted(lambda: ask(provider.token()))


def test_keys_of_a_provider_that_is_not_trusted_are_not_used(provider: IdentityProvider, ask, caplog) -> None:
    options = {"ssl.enabled.protocols": "TLSv1.3"}  # and so the authorities of the system
    with kqueue.Broker(settings=settings(provider, **options)) as broker:
        eventually(lambda: "certificate verify failed" in caplog.text)
        with pytest.raises(NotAuthenticated):
            ask(provider.token(), broker)
        eventually(lambda: "could not be read yet" in caplog.text)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ssl.truststore.location": "/missing", "ssl.truststore.type": "PEM"}, "/missing can't be read"),
        ({"ssl.trustore.location": "x"}, "did you mean 'ssl.truststore.location'"),
    ],
)
def test_a_wrong_trust_store_of_the_provider_ends_the_start(provider: IdentityProvider, options, message) -> None:
    with pytest.raises(SettingError, match="oauthbearer.sasl.jaas.config") as raised:
        kqueue.Broker(settings=settings(provider, **options)).start()
    assert message in str(raised.value)


@pytest.fixture
def run(broker: kqueue.Broker, provider: IdentityProvider, tmp_path: Path) -> Callable[..., Result]:
    def run(*args: str, input: str | None = None, **changes: str) -> Result:
        options = {"clientId": CLIENT_ID, "clientSecret": CLIENT_SECRET, "scope": SCOPE, **provider.trust_options()}
        properties = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.login.callback.handler.class": "org.apache.kafka.common.security.oauthbearer."
            "OAuthBearerLoginCallbackHandler",
            "sasl.oauthbearer.token.endpoint.url": f"{provider.url}/token",
            "sasl.login.retry.backoff.ms": "10",
            "sasl.login.retry.backoff.max.ms": "200",
            "sasl.jaas.config": format_jaas(OAUTHBEARER_MODULE, options),
            **changes,
        }
        path = tmp_path / "client.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        return CliRunner().invoke(
            root, [*args, "--command-config", str(path)], input=input, env={"KQUEUE_BOOTSTRAP": broker.bootstrap}
        )

    return run


def test_commands_ask_the_provider_for_a_token_and_use_it_again(run, provider: IdentityProvider, ask) -> None:
    until_accepted(lambda: ask(provider.token()))
    for args in (["topics", "create", "orders"], ["cluster", "info"], ["groups", "list"]):
        ran = run(*args)
        assert ran.exit_code == 0, ran.output
    produced = run("produce", "orders", input="one\n")
    assert produced.exit_code == 0, produced.output
    assert provider.grants == [SCOPE], "one token is good for all of these"


@pytest.mark.long
@pytest.mark.parametrize(
    ("status", "changes", "message"),
    [
        (200, {f"{CREDENTIALS}.secret": "wrong"}, "status 401 Unauthorized (invalid_client)"),
        (503, {f"{CREDENTIALS}.id": "b"}, "status 503 Service Unavailable"),
        (302, {f"{CREDENTIALS}.id": "c"}, "a redirect is not followed"),
        (200, {"sasl.jaas.config": f"{OAUTHBEARER_MODULE} required clientId=d clientSecret=secret;"}, "verify failed"),
    ],
)
def test_commands_say_why_they_have_no_token(run, provider: IdentityProvider, status, changes, message) -> None:
    provider.status = status
    ran = run("topics", "list", **changes)
    assert ran.exit_code != 0
    assert message in ran.output
    assert f"no token from sasl.oauthbearer.token.endpoint.url={provider.url}/token" in ran.output
    assert "cret" not in ran.output
    assert "wrong" not in ran.output
