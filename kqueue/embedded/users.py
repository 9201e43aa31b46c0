"""The settings of an embedded broker whose clients authenticate as given users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE, format_jaas
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.config import ENABLED_MECHANISMS, JAAS_CONFIG
from kqueue.security.sasl.plain import PLAIN
from kqueue.security.scram_credentials import SCRAM_MECHANISMS

MODULES = {PLAIN: PLAIN_MODULE, **dict.fromkeys(SCRAM_MECHANISMS, SCRAM_MODULE)}


def user_settings(users: Mapping[str, str], listeners: Iterable[str]) -> dict[str, object]:
    """Return the settings that let these users (name: password) authenticate by PLAIN and SCRAM.

    Args: listeners: their names.
    """
    options = {f"user_{name}": password for name, password in users.items()}
    settings: dict[str, object] = {ENABLED_MECHANISMS: list(MODULES)}
    for listener in listeners:
        for mechanism, module in MODULES.items():
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"
            settings[name] = format_jaas(module, options)
    return settings


def default_protocol(*, tls: bool, users: bool) -> SecurityProtocol:
    """Return the protocol of a broker's only listener."""
    if users:
        return SecurityProtocol.SASL_SSL if tls else SecurityProtocol.SASL_PLAINTEXT
    return SecurityProtocol.SSL if tls else SecurityProtocol.PLAINTEXT
