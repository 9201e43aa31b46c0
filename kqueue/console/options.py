"""The options of a console."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kqueue.base.errors import SettingError
from kqueue.client.options import ClientOptions
from kqueue.config.client_security import ClientSecurity
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import MODULES, SaslLogin, checked_mechanism

if TYPE_CHECKING:
    from kqueue.console.messages.schema_values import SchemaSettings

PORT = 8080
TOKEN_CHARACTERS_MIN = 16
CLIENT_ID = "kqueue-console"


def client_options(bootstrap: str, security: ClientSecurity | None = None, **options: Any) -> ClientOptions:
    """Return options of clients whose calls end while a reader still waits for the page.

    Args:
        options: others of `ClientOptions`, in place of these.
    """
    ours: dict[str, Any] = {
        "client_id": CLIENT_ID,
        "timeout_ms": 8_000,
        "request_timeout_ms": 6_000,
        "connect_timeout_ms": 3_000,
        "missing_topic_ms": 100,
    }
    return ClientOptions(bootstrap=bootstrap, security=security, **(ours | options))


@dataclass(frozen=True, kw_only=True)
class ConsoleOptions:
    """What a console serves, to whom, and where.

    Args:
        client: the brokers' addresses, and the credentials of all sessions but those by `login`.
        host, port: the address that is bound; port 0: a free one.
        allow_changes: whether pages may change the cluster.
        login: the SASL mechanism by which each user logs in with a name and password; None: no
            login. Brokers then decide by their ACLs what each user sees.
        token: what a browser has to show once to get in; None: nothing.
        tls_cert, tls_key: files in PEM; None: no TLS.
        allow_plain_http: whether another address than loopback may be served without TLS, behind a
            proxy that adds it.
        allowed_hosts: names by which browsers may reach the console, beside its own.
        history_interval_ms: between the samples of the history, which is read with the credentials
            of `client`; None: no history, nor where users log in and `client` has no login.
        metrics: the addresses of kqueue brokers' metrics, as in ``http://broker:9404/metrics``.
        schemas: where keys and values of messages get their schemas; None: they have none.
    Raises: SettingError: options that exclude each other, or are not safe together.
    """

    client: ClientOptions
    host: str = "127.0.0.1"
    port: int = PORT
    allow_changes: bool = False
    login: str | None = None
    token: str | None = field(default=None, repr=False)
    tls_cert: str | None = None
    tls_key: str | None = None
    allow_plain_http: bool = False
    allowed_hosts: tuple[str, ...] = ()
    history_interval_ms: int | None = None
    metrics: tuple[str, ...] = ()
    schemas: SchemaSettings | None = None

    def __post_init__(self) -> None:
        if self.login is not None:
            object.__setattr__(self, "login", checked_mechanism(self.login, "--login", MODULES))
        if self.login is not None and self.token is not None:
            raise SettingError("--login and --token exclude each other: give the one by which users get in")
        if self.token is not None and len(self.token) < TOKEN_CHARACTERS_MIN:
            raise SettingError(f"the token is too short: give {TOKEN_CHARACTERS_MIN} characters or more")
        if (self.tls_cert is None) is not (self.tls_key is None):
            raise SettingError("--tls-cert and --tls-key belong together: give both, or neither")
        if self.metrics and self.history_interval_ms is None:
            raise SettingError("--metrics needs the history: give --history-interval, of 1 second or more")
        if self.is_loopback:
            return
        if not self.authenticates:
            raise SettingError(
                f"other machines can reach {self.host}, and users need not log in: give --login MECHANISM or "
                "--token-file FILE, or listen on 127.0.0.1"
            )
        if not self.uses_tls and not self.allow_plain_http:
            raise SettingError(
                f"other machines can reach {self.host} without TLS: give --tls-cert and --tls-key, or "
                "--allow-plain-http if a proxy in front adds TLS"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the console."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def authenticates(self) -> bool:
        """Whether a browser has to show something before it sees a page."""
        return self.login is not None or self.token is not None

    @property
    def lacks_credentials(self) -> bool:
        """Whether users log in, and the console has no login of its own, as for its history."""
        return self.login is not None and (self.client.security is None or self.client.security.login is None)

    @property
    def uses_tls(self) -> bool:
        """Whether the console itself serves HTTPS."""
        return self.tls_cert is not None

    def client_of(self, user: str, password: str) -> ClientOptions:
        """Return the options of a user's clients, who logs in by `login`."""
        assert self.login is not None
        security = self.client.security or ClientSecurity()
        protocol = SecurityProtocol.SASL_SSL if security.protocol.uses_tls else SecurityProtocol.SASL_PLAINTEXT
        credentials = SaslLogin(self.login, user, password)
        return replace(self.client, security=replace(security, protocol=protocol, login=credentials))
