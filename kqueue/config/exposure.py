"""Exposure of a broker: the clients that can reach it without showing who they are.

A listener beyond loopback must authenticate its clients: by SASL, or by certificates that it
requires. Otherwise the broker does not start, unless `kqueue.allow.insecure` is true.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kqueue.base import events
from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.listeners import CONTROLLER_LISTENERS, ListenerConfig, unopened_listeners
from kqueue.security.authorizers import SETTING as AUTHORIZER_SETTING
from kqueue.security.authorizers import STANDARD, authorizer_name
from kqueue.security.sasl.config import ENABLED_MECHANISMS
from kqueue.security.tls_config import CLIENT_AUTH

logger = logging.getLogger("kqueue.server")

ALLOW_INSECURE = "kqueue.allow.insecure"
SECRET_MECHANISMS = frozenset({"PLAIN", "OAUTHBEARER"})
"""Mechanisms that send the password or token itself."""


def client_auth(config: Config, listener: ListenerConfig) -> str:
    """Return `ssl.client.auth` of a listener: ``none``, ``requested`` or ``required``.

    Listeners with SASL take it only with their prefix, as in Kafka (KIP-684).
    """
    name = listener.bind.name
    if not listener.protocol.uses_tls:
        return "none"
    if listener.protocol.uses_sasl and not config.is_set(f"listener.name.{name.lower()}.{CLIENT_AUTH}"):
        return "none"
    return config.of_listener(name, CLIENT_AUTH) or "none"


def authenticates(config: Config, listener: ListenerConfig) -> bool:
    """Return whether every client of a listener has to authenticate."""
    return listener.protocol.uses_sasl or client_auth(config, listener) == "required"


def is_standard_authorizer(config: Config) -> bool:
    """Return whether the authorizer is the one that decides by ACLs."""
    return authorizer_name(config[AUTHORIZER_SETTING]) == STANDARD


def secrets_in_clear(config: Config, listener: ListenerConfig) -> list[str]:
    """Return the mechanisms by which clients send secrets that everybody on the way can read."""
    if listener.protocol.uses_tls or not listener.protocol.uses_sasl:
        return []
    return sorted(SECRET_MECHANISMS.intersection(config.of_listener(listener.bind.name, ENABLED_MECHANISMS)))


def check_exposure(config: Config, listeners: Iterable[ListenerConfig]) -> None:
    """Check who can reach the listeners; log a warning for what is allowed and not secure.

    Raises: SettingError: other machines reach a listener on which nobody has to authenticate.
    """
    unopened = unopened_listeners(config)
    if unopened:
        events.LISTENER_NOT_OPENED.log(
            logger,
            "not opened: %s, which %s names: there is no controller quorum",
            listeners=", ".join(map(str, unopened)),
            setting=CONTROLLER_LISTENERS,
        )
    beyond = [listener for listener in listeners if not listener.bind.is_loopback]
    is_allowed = config[ALLOW_INSECURE]
    for listener in beyond:
        if not authenticates(config, listener):
            problem = f"other machines can reach the listener {listener.bind}, and clients need not authenticate"
            if not is_allowed:
                raise SettingError(
                    f"{problem}: listen on loopback (127.0.0.1), use TLS with {CLIENT_AUTH}=required or SASL "
                    f"(listener.security.protocol.map), or set {ALLOW_INSECURE}=true"
                )
            events.LISTENER_INSECURE.log(logger, "%s (%s=true)", problem=problem, setting=ALLOW_INSECURE)
        elif not config[AUTHORIZER_SETTING]:
            events.LISTENER_INSECURE.log(
                logger,
                "other machines can reach the listener %s, and there is no authorizer (%s): every client that "
                "authenticates can read, write and delete everything",
                listener=listener.bind,
                setting=AUTHORIZER_SETTING,
            )
        mechanisms = secrets_in_clear(config, listener)
        if mechanisms:
            events.LISTENER_INSECURE.log(
                logger,
                "listener %s takes %s without TLS: passwords and tokens can be read on the way; use SASL_SSL",
                listener=listener.bind,
                mechanisms=", ".join(mechanisms),
            )
