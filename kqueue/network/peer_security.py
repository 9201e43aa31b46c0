"""Security of this broker's connections to other brokers: the settings of the listener at which
brokers reach each other.
"""

from __future__ import annotations

import socket
import threading
from typing import TYPE_CHECKING, NamedTuple

from kqueue.base.config import Config
from kqueue.base.errors import SettingError
from kqueue.config.listeners import ListenerConfig
from kqueue.config.tls_client import TlsClientSettings, client_context, file_states
from kqueue.network.tls_context import TlsSettings
from kqueue.network.tls_socket import TlsSocket
from kqueue.replication.config import INTER_BROKER_MECHANISM
from kqueue.security.jaas import OAUTHBEARER_MODULE
from kqueue.security.sasl.config import CLIENT_ID, CLIENT_SECRET, JAAS_CONFIG, TOKEN_SCOPE, TOKEN_URL
from kqueue.security.sasl.login import MODULES, SaslLogin, checked_mechanism, login_of
from kqueue.security.sasl.mechanisms import SaslListenerConfig, login_module
from kqueue.security.sasl.oauthbearer import OAUTHBEARER

if TYPE_CHECKING:
    from kqueue.config.token_login import TokenLogin

ENDPOINT_IDENTIFICATION = "ssl.endpoint.identification.algorithm"


class PeerTls:
    """The client's side of TLS. Changed settings and files count from the next connection on; what
    can't be used fails that connection.

    Raises: SettingError: a store can't be read.
    """

    def __init__(self, plan: ListenerConfig, config: Config) -> None:
        self._plan = plan
        self._config = config
        self._lock = threading.Lock()
        self._current = self.settings()
        self._states = file_states(self._current)
        self._context = client_context(self._current)

    def settings(self) -> TlsClientSettings:
        """Return the settings as they are now."""
        tls = TlsSettings.of(self._plan, self._config)
        check = self._config.of_listener(self._plan.bind.name, ENDPOINT_IDENTIFICATION) == "https"
        return TlsClientSettings(tls.keys, tls.trusted, tls.protocols, tls.suites, check)

    def wrap(self, plain: socket.socket, host: str, settings: TlsClientSettings) -> TlsSocket:
        """Return a TLS connection, whose handshake has not begun, to `host`. Reads changed files.

        Thread: any. Raises: SettingError. OSError.
        """
        with self._lock:
            states = file_states(settings)
            if settings != self._current or states != self._states:
                self._context = client_context(settings)
                self._current, self._states = settings, states
            context = self._context
        return TlsSocket(plain, context, host)


class PeerSecurity(NamedTuple):
    """The TLS and SASL of connections to other brokers. None: not needed.

    `listener`: at which brokers reach each other, for messages.
    """

    tls: PeerTls | None
    login: SaslLogin | TokenLogin | None
    listener: str

    @classmethod
    def of(cls, plan: ListenerConfig, config: Config) -> PeerSecurity:
        """Return what the settings of the brokers' listener say.

        Raises: SettingError: certificates or credentials are missing, or wrong.
        """
        return cls(
            PeerTls(plan, config) if plan.protocol.uses_tls else None,
            _login(plan, config) if plan.protocol.uses_sasl else None,
            plan.bind.name,
        )


def _login(plan: ListenerConfig, config: Config) -> SaslLogin | TokenLogin:
    mechanism = checked_mechanism(config[INTER_BROKER_MECHANISM], INTER_BROKER_MECHANISM, (*MODULES, OAUTHBEARER))
    settings = SaslListenerConfig(config, plan.bind.name)
    setting = settings.setting(JAAS_CONFIG, mechanism)
    if mechanism == OAUTHBEARER:
        return _token_login(settings, setting)
    module = login_module(settings, mechanism, MODULES[mechanism])
    if module is None:
        raise SettingError(
            f"this broker has no credentials for the others: set {setting}="
            f'{MODULES[mechanism]} required username="USER" password="PASSWORD";'
        )
    return login_of(mechanism, module, setting)


def _token_login(settings: SaslListenerConfig, setting: str) -> TokenLogin:
    from kqueue.config.token_login import TOKEN_PROPERTIES, token_login  # on use: few brokers need it

    own = {name: settings.value(name, OAUTHBEARER) for name in (TOKEN_URL, CLIENT_ID, CLIENT_SECRET, TOKEN_SCOPE)}
    values = {**TOKEN_PROPERTIES, **{name: None if value is None else str(value) for name, value in own.items()}}
    return token_login(values, login_module(settings, OAUTHBEARER, OAUTHBEARER_MODULE), setting)
