"""The arguments `tls`, `users` and `acls` of an embedded broker, or of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kqueue.config.catalog import CATALOG
from kqueue.config.listeners import parse_listener_address
from kqueue.config.properties import SourcedValue
from kqueue.embedded.argument_checks import check_kind, check_list, check_mapping
from kqueue.replication.config import INTER_BROKER_MECHANISM
from kqueue.security.authorizers import SETTING as AUTHORIZER
from kqueue.security.authorizers import STANDARD
from kqueue.security.config import SUPER_USERS
from kqueue.security.protocols import SecurityProtocol

if TYPE_CHECKING:
    from kqueue.embedded.development_certificates import DevelopmentCertificates
    from kqueue.security.acls import AclBinding

PEER_USER = "kqueue-broker"
"""The user that the brokers of a cluster are for each other, as in their certificates."""
PEER_MECHANISM = "SCRAM-SHA-512"
USERS_EXPECTED = 'a dict of passwords by name, such as {"ann": "secret"}'
PEER_ACLS = ("User:ANONYMOUS allow cluster_action cluster",)
"""Of a cluster whose brokers can't be told from its clients."""


class SecurityArguments:
    """The clients that may connect to embedded brokers, and their rights.

    Attributes:
        users: passwords by name.
        acls: what the brokers have at their start.
        certificates: of the brokers and of users; None: they have none.
    """

    def __init__(
        self,
        *,
        tls: bool,
        users: Mapping[str, str] | None,
        acls: Iterable[str | AclBinding],
        is_cluster: bool = False,
    ) -> None:
        """Args: is_cluster: the brokers authenticate at each other, as a super user `PEER_USER`.

        Raises: InvalidRequest: an ACL is wrong. SettingError: a package is not installed.
            ValueError: a user has the name of the brokers. TypeError: an argument of another type.
        """
        check_kind("tls", tls, bool, "True or False")
        if users is not None:
            check_mapping("users", users, USERS_EXPECTED)
            if not all(isinstance(text, str) for pair in users.items() for text in pair):
                raise TypeError(f"users: expected {USERS_EXPECTED}, found a name or a password that is no text")
        check_list("acls", acls, 'a list of ACLs, such as ["User:ann allow read topic:orders"]')
        self.users: Mapping[str, str] = dict(users or {})
        self.acls = _parsed(acls)
        self.certificates: DevelopmentCertificates | None = None
        if tls:
            from kqueue.embedded.development_certificates import DevelopmentCertificates

            self.certificates = DevelopmentCertificates()
        self._is_cluster = is_cluster
        if is_cluster and PEER_USER in self.users:
            raise ValueError(f"users: {PEER_USER} is the name of the brokers themselves, expected another one")
        if is_cluster and self.acls and self.protocol is SecurityProtocol.PLAINTEXT:
            self.acls += _parsed(PEER_ACLS)

    @property
    def protocol(self) -> SecurityProtocol:
        """The protocol of the default listener."""
        if self.users:
            return SecurityProtocol.SASL_SSL if self.certificates else SecurityProtocol.SASL_PLAINTEXT
        return SecurityProtocol.SSL if self.certificates else SecurityProtocol.PLAINTEXT

    def complete(self, values: Mapping[str, SourcedValue]) -> dict[str, SourcedValue]:
        """Return a broker's settings with those that the arguments mean, which do not replace any
        but the super users: they are added to.
        """
        own: dict[str, object] = {}
        if self.certificates is not None:
            own.update(self.certificates.settings)
        if self.users:
            own.update(self._user_settings(values))
        if self.acls:
            own[AUTHORIZER] = STANDARD
        completed = {name: SourcedValue(value, "defaults") for name, value in own.items()} | dict(values)
        if self._is_cluster and (self.users or self.certificates):
            peer = f"User:{PEER_USER}" if self.users else f"User:CN={PEER_USER}"
            given = values.get(SUPER_USERS)
            completed[SUPER_USERS] = SourcedValue(peer, "defaults") if given is None else _added(given, peer)
        return completed

    def _user_settings(self, values: Mapping[str, SourcedValue]) -> dict[str, object]:
        from kqueue.embedded.users import user_settings

        texts = CATALOG.broker["listeners"].parse(values["listeners"].value)
        listeners = [parse_listener_address(text, "listeners").name for text in texts]
        if not self._is_cluster:
            return user_settings(self.users, listeners)
        import secrets  # on use: it loads OpenSSL's hashes

        own = user_settings(self.users, listeners, (PEER_USER, secrets.token_hex(16)))
        return {INTER_BROKER_MECHANISM: PEER_MECHANISM, **own}

    def client_config(
        self,
        client: str,
        bootstrap: str,
        protocol: SecurityProtocol,
        *,
        user: str | None,
        password: str | None,
        mechanism: str,
        token: Callable[[], str] | None,
    ) -> dict[str, Any]:
        """Return what a client needs to connect; see `EmbeddedNode.client_config`."""
        from kqueue.embedded.client_configs import ClientAccess, client_config

        if protocol.uses_sasl:
            user = user if user is not None else next(iter(self.users), None)
            password = password if password is not None or user is None else self.users.get(user)
        access = ClientAccess(bootstrap, protocol, self.certificates, user, password, mechanism, token)
        return client_config(client, access)


def _parsed(acls: Iterable[str | AclBinding]) -> list[AclBinding]:
    if not acls:
        return []
    from kqueue.security.acl_text import parse_acls  # on use: most brokers have none

    return parse_acls(acls)


def _added(given: SourcedValue, peer: str) -> SourcedValue:
    return given._replace(value=f"{peer};{given.value}" if given.value else peer)
