"""The settings of an embedded broker whose clients authenticate as given users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kqueue.security.jaas import PLAIN_MODULE, SCRAM_MODULE, format_jaas
from kqueue.security.sasl.config import ENABLED_MECHANISMS, JAAS_CONFIG
from kqueue.security.sasl.plain import PLAIN
from kqueue.security.scram_credentials import SCRAM_MECHANISMS

MODULES = {PLAIN: PLAIN_MODULE, **dict.fromkeys(SCRAM_MECHANISMS, SCRAM_MODULE)}


def user_settings(
    users: Mapping[str, str], listeners: Iterable[str], peer: tuple[str, str] | None = None
) -> dict[str, object]:
    """Return the settings that let these users (name: password) authenticate by PLAIN and SCRAM.

    Args:
        listeners: their names.
        peer: name and password by which brokers authenticate at each other; None: they do not.
    """
    options = {f"user_{name}": password for name, password in users.items()}
    if peer is not None:
        name, password = peer
        options |= {"username": name, "password": password, f"user_{name}": password}
    settings: dict[str, object] = {ENABLED_MECHANISMS: list(MODULES)}
    for listener in listeners:
        for mechanism, module in MODULES.items():
            name = f"listener.name.{listener.lower()}.{mechanism.lower()}.{JAAS_CONFIG}"
            settings[name] = format_jaas(module, options)
    return settings
