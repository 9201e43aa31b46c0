"""The arguments with which clients of Kafka connect to an embedded broker, by library."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from kqueue.base.names import did_you_mean
from kqueue.embedded.development_certificates import DevelopmentCertificates
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.oauthbearer import OAUTHBEARER


class ClientAccess(NamedTuple):
    """The way in which a client connects.

    Attributes:
        certificates: of the broker; None: it has none that this module knows.
        user: whom the client is; None: nobody in particular.
        password, mechanism: of listeners with SASL.
        token: returns a token, for OAUTHBEARER; it may block.
    """

    bootstrap: str
    protocol: SecurityProtocol
    certificates: DevelopmentCertificates | None = None
    user: str | None = None
    password: str | None = None
    mechanism: str = "PLAIN"
    token: Callable[[], str] | None = None

    @property
    def authority_file(self) -> str | None:
        """The file that says which authority to trust."""
        has_file = self.protocol.uses_tls and self.certificates is not None
        return self.certificates.authority_file if has_file and self.certificates is not None else None

    @property
    def user_file(self) -> str | None:
        """The file with the client's own key and certificate."""
        if self.protocol is not SecurityProtocol.SSL or self.certificates is None or self.user is None:
            return None
        return self.certificates.user_file(self.user)


def client_config(client: str, access: ClientAccess) -> dict[str, Any]:
    """Return the arguments of one of `CLIENTS`. Raises ValueError: another client."""
    make = CLIENTS.get(client)
    if make is None:
        raise ValueError(f"no client is called {client!r}{did_you_mean(client, CLIENTS)}: {', '.join(CLIENTS)}")
    return make(access)


def _kafka_python(access: ClientAccess) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": access.bootstrap, "security_protocol": access.protocol.name}
    if access.authority_file is not None:
        config["ssl_cafile"] = access.authority_file
    if access.user_file is not None:
        config |= {"ssl_certfile": access.user_file, "ssl_keyfile": access.user_file}
    if access.token is not None:
        from kqueue.config.client_security import kafka_python_tokens

        return config | {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": kafka_python_tokens(access.token)}
    return config | _sasl(access)


def _aiokafka(access: ClientAccess) -> dict[str, Any]:
    config: dict[str, Any] = {"bootstrap_servers": access.bootstrap, "security_protocol": access.protocol.name}
    if access.protocol.uses_tls:
        import ssl

        context = ssl.create_default_context(cafile=access.authority_file)
        if access.user_file is not None:
            context.load_cert_chain(access.user_file)
        config["ssl_context"] = context
    if access.token is not None:
        return config | {"sasl_mechanism": OAUTHBEARER, "sasl_oauth_token_provider": _aiokafka_tokens(access.token)}
    return config | _sasl(access)


def _aiokafka_tokens(token: Callable[[], str]) -> Any:
    import asyncio

    from aiokafka.abc import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        async def token(self) -> str:
            return await asyncio.to_thread(token)

    return Tokens()


def _sasl(access: ClientAccess) -> dict[str, Any]:
    if not access.protocol.uses_sasl:
        return {}
    return {
        "sasl_mechanism": access.mechanism,
        "sasl_plain_username": access.user,
        "sasl_plain_password": access.password,
    }


def _confluent_kafka(access: ClientAccess) -> dict[str, Any]:
    values: Mapping[str, Any] = {
        "bootstrap.servers": access.bootstrap,
        "security.protocol": access.protocol.name,
        "ssl.ca.location": access.authority_file,
        "ssl.certificate.location": access.user_file,
        "ssl.key.location": access.user_file,
    }
    if access.token is not None:
        token = access.token
        values = {**values, "sasl.mechanism": OAUTHBEARER, "oauth_cb": lambda config: _with_end(token())}
    elif access.protocol.uses_sasl:
        sasl = {"sasl.mechanism": access.mechanism, "sasl.username": access.user, "sasl.password": access.password}
        values = {**values, **sasl}
    return {name: value for name, value in values.items() if value is not None}


def _with_end(token: str) -> tuple[str, float]:
    """Return a token and when it ends, in seconds since 1970, which librdkafka has to know."""
    claims = token.split(".")[1]
    return token, float(json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))["exp"])


CLIENTS: Mapping[str, Callable[[ClientAccess], dict[str, Any]]] = {
    "kafka-python": _kafka_python,
    "aiokafka": _aiokafka,
    "confluent-kafka": _confluent_kafka,
}
"""The libraries that `client_config` knows."""
