"""How a client connects securely, from Kafka's client properties (Source: Kafka's ClientConfigs,
SslConfigs, SaslConfigs), with the names of librdkafka for user and password.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kqueue.base.errors import SettingError
from kqueue.base.key_stores import StoreSettings
from kqueue.base.names import did_you_mean
from kqueue.config.tls_client import TlsClientSettings, client_context
from kqueue.security import tls_config
from kqueue.security.jaas import parse_jaas
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import SaslLogin, checked_mechanism, login_of
from kqueue.security.tls_config import TLS_1_2, TLS_1_3

PROTOCOL, MECHANISM, JAAS_CONFIG = "security.protocol", "sasl.mechanism", "sasl.jaas.config"
USER, PASSWORD = "sasl.username", "sasl.password"
PROPERTIES: Mapping[str, str | None] = {
    PROTOCOL: "PLAINTEXT",
    "ssl.truststore.type": "JKS",
    "ssl.truststore.location": None,
    "ssl.truststore.password": None,
    "ssl.truststore.certificates": None,
    "ssl.keystore.type": "JKS",
    "ssl.keystore.location": None,
    "ssl.keystore.password": None,
    "ssl.keystore.certificate.chain": None,
    "ssl.keystore.key": None,
    "ssl.key.password": None,
    "ssl.enabled.protocols": f"{TLS_1_2},{TLS_1_3}",
    "ssl.cipher.suites": "",
    "ssl.endpoint.identification.algorithm": "https",
    MECHANISM: None,
    JAAS_CONFIG: None,
    USER: None,
    PASSWORD: None,
}
"""The properties with their defaults. Kafka has no default for users; its mechanism is GSSAPI."""
WITHOUT_EFFECT = ("security.providers", *(row.name for row in tls_config.SETTINGS if row.without_effect))
"""Java's own, which are accepted."""


@dataclass(frozen=True, slots=True)
class ClientSecurity:
    """How a client connects; it can be pickled. None: not used by the protocol."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsClientSettings | None = field(default=None, repr=False)
    login: SaslLogin | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> ClientSecurity:
        """Return what these properties say; others than those of security are ignored.

        Raises: SettingError: an unknown one, or a wrong value, which is not shown.
        """
        for name in given:
            if name.startswith(("ssl.", "sasl.", "security.")) and name not in (*PROPERTIES, *WITHOUT_EFFECT):
                raise SettingError(f"no client property is called {name!r}{did_you_mean(name, PROPERTIES)}")
        values = {name: given.get(name, default) for name, default in PROPERTIES.items()}
        name = (values[PROTOCOL] or "").strip().upper()
        if name not in SecurityProtocol.__members__:
            raise SettingError(f"{PROTOCOL}={name}: expected one of {', '.join(SecurityProtocol.__members__)}")
        protocol = SecurityProtocol[name]
        return cls(
            protocol,
            _tls(values) if protocol.uses_tls else None,
            _login(values) if protocol.uses_sasl else None,
        )


def _tls(values: Mapping[str, str | None]) -> TlsClientSettings:
    algorithm = values["ssl.endpoint.identification.algorithm"] or ""
    if algorithm.lower() not in ("https", ""):
        raise SettingError(f"ssl.endpoint.identification.algorithm={algorithm}: expected https, or nothing")
    protocols = _listed(values["ssl.enabled.protocols"])
    if not protocols or not {*protocols} <= {TLS_1_2, TLS_1_3}:
        raise SettingError(f"ssl.enabled.protocols={','.join(protocols)}: expected {TLS_1_2}, {TLS_1_3}, or both")
    keys = StoreSettings(
        "ssl.keystore",
        values["ssl.keystore.type"] or "",
        values["ssl.keystore.location"],
        values["ssl.keystore.password"],
        values["ssl.keystore.certificate.chain"],
        values["ssl.keystore.key"],
        values["ssl.key.password"],
    )
    trusted = StoreSettings(
        "ssl.truststore",
        values["ssl.truststore.type"] or "",
        values["ssl.truststore.location"],
        values["ssl.truststore.password"],
        values["ssl.truststore.certificates"],
    )
    return TlsClientSettings(keys, trusted, protocols, _listed(values["ssl.cipher.suites"]), bool(algorithm))


def _login(values: Mapping[str, str | None]) -> SaslLogin:
    mechanism = checked_mechanism((values[MECHANISM] or "GSSAPI").strip(), MECHANISM)
    jaas, user, password = values[JAAS_CONFIG], values[USER], values[PASSWORD]
    if jaas is not None:
        return login_of(mechanism, parse_jaas(jaas, JAAS_CONFIG), JAAS_CONFIG)
    if not user or not password:
        raise SettingError(f"{mechanism} needs {JAAS_CONFIG}, or {USER} and {PASSWORD}")
    return SaslLogin(mechanism, user, password)


def _listed(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def kafka_python_arguments(security: ClientSecurity) -> dict[str, Any]:
    """Return the keyword arguments of kafka-python's clients. Raises SettingError."""
    if security.protocol is SecurityProtocol.PLAINTEXT:
        return {}
    arguments: dict[str, Any] = {"security_protocol": security.protocol.name}
    if security.tls is not None:
        arguments["ssl_context"] = client_context(security.tls)
    login = security.login
    if login is not None:
        if login.by_token:
            raise SettingError(f"{JAAS_CONFIG}: this command can't authenticate by a delegation token")
        arguments |= {
            "sasl_mechanism": login.mechanism,
            "sasl_plain_username": login.user,
            "sasl_plain_password": login.password,
        }
    return arguments
