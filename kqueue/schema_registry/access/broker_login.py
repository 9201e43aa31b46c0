"""Logins that the broker checks: each user is one of Kafka's."""

from __future__ import annotations

from dataclasses import replace

from kqueue.client import Client, ClientOptions
from kqueue.client.errors import ClientError, NotAuthenticated
from kqueue.config.client_security import ClientSecurity
from kqueue.schema_registry.errors import LOGIN_UNCHECKED, RegistryError
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import MODULES, SaslLogin, checked_mechanism

TIMEOUT_MS = 5_000
REFUSED = "The broker does not accept this user and password."


class BrokerLogin:
    """The `LoginCheck` that logs in to a broker, by PLAIN or SCRAM, as the user would.

    Args:
        options: of the registry's own clients; TLS is as for them.
    Raises: SettingError: another mechanism.
    """

    def __init__(self, options: ClientOptions, mechanism: str) -> None:
        self._mechanism = checked_mechanism(mechanism, "--login", MODULES)
        security = options.security or ClientSecurity()
        protocol = SecurityProtocol.SASL_SSL if security.protocol.uses_tls else SecurityProtocol.SASL_PLAINTEXT
        self._security = replace(security, protocol=protocol)
        self._options = replace(
            options, timeout_ms=TIMEOUT_MS, request_timeout_ms=TIMEOUT_MS, connect_timeout_ms=TIMEOUT_MS
        )

    def refusal(self, user: str, password: str) -> str | None:
        """See `LoginCheck`."""
        if not password:
            return REFUSED
        login = SaslLogin(self._mechanism, user, password)
        try:
            with Client(replace(self._options, security=replace(self._security, login=login))) as client:
                client.metadata([])
        except NotAuthenticated:
            return REFUSED
        except ClientError as error:
            raise RegistryError(LOGIN_UNCHECKED, reason=str(error)) from error
        return None
