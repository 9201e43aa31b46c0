"""Secure connections of a client, from Kafka's client properties (Source: Kafka's ClientConfigs,
SslConfigs, SaslConfigs), with the names of librdkafka for user and password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kqueue.base.errors import SettingError
from kqueue.base.names import did_you_mean, nearest
from kqueue.config.tls_client import TlsClientSettings, client_context
from kqueue.config.tls_properties import TLS_PROPERTIES, TLS_WITHOUT_EFFECT, tls_client_settings
from kqueue.config.token_login import TOKEN_PROPERTIES, TOKEN_WITHOUT_EFFECT, TokenLogin, token_login
from kqueue.security.jaas import parse_jaas
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import MODULES, SaslLogin, checked_mechanism, login_of
from kqueue.security.sasl.oauthbearer import OAUTHBEARER

PROTOCOL, MECHANISM, JAAS_CONFIG = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
USER, PASSWORD = "sasl.username", "sasl.password"
PROPERTIES: Mapping[str, str | None] = {
    PROTOCOL: "PLAINTEXT",
    **TLS_PROPERTIES,
    MECHANISM: None,
    JAAS_CONFIG: None,
    USER: None,
    PASSWORD: None,
    **TOKEN_PROPERTIES,
}
"""The properties with their defaults. Kafka has no default for users; its mechanism is GSSAPI."""
WITHOUT_EFFECT = ("security.providers", *TLS_WITHOUT_EFFECT, *TOKEN_WITHOUT_EFFECT)
"""Java's own, which are accepted."""
ALMOST = 0.85
"""The similarity from which on a name is taken for a misspelled one: without its property a client
would connect in the clear.
"""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """The security of a client's connections; it can be pickled. None: not used by the protocol."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsClientSettings | None = field(default=None, repr=False)
    login: SaslLogin | TokenLogin | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ClientSecurity:
        """Return what these properties say; others than those of security are ignored.

        Raises: SettingError: an unknown one, or one that is almost called as one of security, or a
            wrong value, which is not shown.
        """
        for name in given:
            if name in PROPERTIES or name in WITHOUT_EFFECT:
                continue
            if name.startswith(("ssl.", "sasl.", "security.")) or nearest(name, PROPERTIES, least=ALMOST):
                raise SettingError(f"no client property is called {name!r}{did_you_mean(name, PROPERTIES)}")
        values = {name: given.get(name, default) for name, default in PROPERTIES.items()}
        name = (values[PROTOCOL] or "").strip().upper()
        if name not in SecurityProtocol.__members__:
            raise SettingError(f"{PROTOCOL}={name}: expected one of {', '.join(SecurityProtocol.__members__)}")
        protocol = SecurityProtocol[name]
        return cls(
            protocol,
            tls_client_settings(values) if protocol.uses_tls else None,
            _login(values) if protocol.uses_sasl else None,
        )

    def with_files(self) -> ClientSecurity:
        """Return it with what the files of its stores have now, for machines without them."""
        login = self.login
        if isinstance(login, TokenLogin) and login.tls is not None:
            login = replace(login, tls=login.tls.with_files())
        return replace(self, tls=None if self.tls is None else self.tls.with_files(), login=login)


def _login(values: Mapping[str, str | None]) -> SaslLogin | TokenLogin:
    mechanism = checked_mechanism((values[MECHANISM] or "GSSAPI").strip(), MECHANISM, (*MODULES, OAUTHBEARER))
    jaas, user, password = values[JAAS_CONFIG], values[USER], values[PASSWORD]
    module = None if jaas is None else parse_jaas(jaas, JAAS_CONFIG)
    if mechanism == OAUTHBEARER:
        return token_login(values, module, JAAS_CONFIG)
    if module is not None:
        return login_of(mechanism, module, JAAS_CONFIG)
    if not user or not password:
        raise SettingError(f"{mechanism} needs {JAAS_CONFIG}, or {USER} and {PASSWORD}")
    return SaslLogin(mechanism, user, password)


def kafka_python_arguments(security: ClientSecurity) -> dict[str, Any]:
    """Return the keyword arguments of kafka-python's clients. Raises SettingError."""
    if security.protocol is SecurityProtocol.PLAINTEXT:
        return {}
    arguments: dict[str, Any] = {"security_protocol": security.protocol.name}
    if security.tls is not None:
        arguments["ssl_context"] = client_context(security.tls)
    login = security.login
    if isinstance(login, TokenLogin):
        return arguments | {
            "sasl_mechanism": OAUTHBEARER,
            "sasl_oauth_token_provider": kafka_python_tokens(login.token),
        }
    if login is not None:
        if login.by_token:
            raise SettingError(f"{JAAS_CONFIG}: this command can't authenticate by a delegation token")
        arguments |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return arguments


def kafka_python_tokens(token: Callable[[], str]) -> Any:
    """Return what kafka-python asks for a token at each authentication. `token` may block."""
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Tokens(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return token()

    return Tokens()
