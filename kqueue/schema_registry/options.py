"""The options of a registry."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kqueue.base.errors import SettingError
from kqueue.base.names import check_topic
from kqueue.client.options import ClientOptions
from kqueue.config.client_security import ClientSecurity
from kqueue.schema_registry.election.election_member import TIMES, ElectionTimes
from kqueue.schema_registry.election.group_messages import RegistryIdentity
from kqueue.schema_registry.schemas import LEVELS
from kqueue.security.sasl.login import MODULES, checked_mechanism

PORT = 8081
TOPIC = "_schemas"
GROUP = "schema-registry"
CLIENT_ID = "kqueue-schema-registry"


def client_options(bootstrap: str, security: ClientSecurity | None = None, **options: Any) -> ClientOptions:
    """Return options of clients whose calls end while the session of an election lasts.

    Args:
        options: others of `ClientOptions`, in place of these.
    """
    ours: dict[str, Any] = {
        "client_id": CLIENT_ID,
        "timeout_ms": 8_000,
        "request_timeout_ms": 6_000,
        "connect_timeout_ms": 3_000,
    }
    return ClientOptions(bootstrap=bootstrap, security=security, **(ours | options))


@dataclass(frozen=True, kw_only=True)
class RegistryOptions:
    """What a registry serves, to whom, and where.

    Args:
        client: the brokers' addresses, and the registry's own credentials.
        host, port: the address that is bound; port 0: a free one.
        advertised_url: by which the other registries reach this one; None: the address that is
            bound.
        topic, group: of all registries that share their schemas.
        elects: whether others may share them: a writer is elected. False: this registry is the only
            one, and writes without a delay.
        is_eligible: whether it may become the writer.
        election_times: how soon others notice that it has ended.
        compatibility: the level where nothing is set.
        tls_cert, tls_key: files in PEM; None: no TLS.
        leader_ca: a file in PEM with whom to trust as the leader, where it has https; None: the
            authorities of the system.
        users_file: users with their passwords; None: none.
        login: the SASL mechanism by which each login is checked at the broker; None: it is not.
        uses_acls: whether the broker's ACLs on topics decide what users may do with subjects.
        super_users: names of users who may do everything.
        allow_anonymous: whether another address than loopback may be served without logins.
        allow_plain_http: whether it may be served without TLS, behind a proxy that adds it.
    Raises: SettingError: options that exclude each other, or are not safe together.
    """

    client: ClientOptions
    host: str = "127.0.0.1"
    port: int = PORT
    advertised_url: str | None = None
    topic: str = TOPIC
    group: str = GROUP
    elects: bool = True
    is_eligible: bool = True
    election_times: ElectionTimes = TIMES
    compatibility: str = "BACKWARD"
    tls_cert: str | None = None
    tls_key: str | None = None
    leader_ca: str | None = None
    users_file: Path | None = None
    login: str | None = None
    uses_acls: bool = False
    super_users: tuple[str, ...] = field(default=())
    allow_anonymous: bool = False
    allow_plain_http: bool = False

    def __post_init__(self) -> None:
        check_topic(self.topic)
        if self.compatibility not in LEVELS:
            raise SettingError(f"--compatibility={self.compatibility}: expected one of {', '.join(LEVELS)}")
        if self.advertised_url is not None:
            try:
                RegistryIdentity.of_url(self.advertised_url)
            except ValueError as error:
                raise SettingError(f"--advertised-url: {error}") from None
        if self.login is not None:
            object.__setattr__(self, "login", checked_mechanism(self.login, "--login", MODULES))
        if self.login is not None and self.users_file is not None:
            raise SettingError("--login and --users-file exclude each other: give the one that knows the users")
        if (self.tls_cert is None) is not (self.tls_key is None):
            raise SettingError("--tls-cert and --tls-key belong together: give both, or neither")
        if self.super_users and not self.uses_acls:
            raise SettingError("--super-user needs --acls: without it every user may do everything")
        if self.uses_acls and not self.authenticates:
            raise SettingError("--acls needs users: give --login MECHANISM or --users-file FILE")
        if not self.is_loopback:
            self._check_exposed()

    def _check_exposed(self) -> None:
        if not self.authenticates and not self.allow_anonymous:
            raise SettingError(
                f"other machines can reach {self.host}, and users need not log in: give --login MECHANISM, "
                "--users-file FILE or --allow-anonymous, or listen on 127.0.0.1"
            )
        if self.authenticates and self.tls_cert is None and not self.allow_plain_http:
            raise SettingError(
                f"other machines can reach {self.host}, and passwords are sent without TLS: give --tls-cert and "
                "--tls-key, or --allow-plain-http if a proxy in front adds TLS"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach the registry."""
        if self.host.lower() == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def authenticates(self) -> bool:
        """Whether users log in."""
        return self.login is not None or self.users_file is not None
