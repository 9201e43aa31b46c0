"""What the application asks of those who run it: who leads, who the user is, what users may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple, Protocol


class Leadership(Protocol):
    """Which registry makes changes. Thread: any."""

    def is_leader(self) -> bool:
        """Whether this one does: it has read its log to the end, and may append to it."""
        ...

    def leader_url(self) -> str | None:
        """Return the address of the one that does, without a slash at its end; None: unknown."""
        ...


class SoleLeader:
    """The leadership of a registry that has its log for itself."""

    def is_leader(self) -> bool:
        """Return True."""
        return True

    def leader_url(self) -> str | None:
        """Return None: nothing is forwarded."""
        return None


class ClusterIds(NamedTuple):
    """Whose registry it is. `kafka_cluster_id`: "": not known. `group_id`: of the registries."""

    kafka_cluster_id: str = ""
    group_id: str = "schema-registry"


NO_CLUSTER = ClusterIds()


class ForwardedRequest(NamedTuple):
    """A request for the leader.

    Attributes:
        path: with its query, encoded, from the first slash.
        headers: the names in lower case; those that belong to one connection are left out.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class ForwardedAnswer(NamedTuple):
    """The leader's answer, which is passed on as it is."""

    status: int
    content_type: str
    body: bytes


class Forwarder(Protocol):
    """Sends requests on to the leader. Thread: any."""

    def forward(self, leader_url: str, request: ForwardedRequest) -> ForwardedAnswer:
        """Return the leader's answer, whatever its status.

        Raises: RegistryError (FORWARDING_FAILED): it did not answer in time.
        """
        ...


class Credentials(NamedTuple):
    """What a request brings along.

    Attributes:
        authorization: the header; None: there is none.
        client: host and port of the other side; None: not known.
        scope: the ASGI scope, for what a server puts there (certificates of clients).
    """

    authorization: str | None
    client: tuple[str, int] | None
    scope: Mapping[str, object]


class Authenticator(Protocol):
    """Says who sends a request. Thread: any."""

    challenge: str
    """The header WWW-Authenticate of refusals."""

    def authenticate(self, credentials: Credentials) -> str:
        """Return the name of the user. Raises: RegistryError (UNAUTHORIZED)."""
        ...


Observe = Callable[[str, str, int, float], object]
"""Takes method, path of the endpoint's table, status and seconds of an answer. Thread: any."""


class Operation(Enum):
    """What a request does to a subject, or, if it names none, to the registry as a whole."""

    READ = "read"  # schemas and versions
    WRITE = "write"  # register
    DELETE = "delete"
    DESCRIBE_CONFIGS = "describe the configs of"  # configs and modes
    ALTER_CONFIGS = "alter the configs of"


class Authorizer(Protocol):
    """Says what users may do. Thread: any."""

    def is_allowed(self, user: str | None, operation: Operation, subject: str | None) -> bool:
        """Whether a user may do this.

        Args:
            user: None: no user is authenticated.
            subject: its name with its context (`:.context:subject`); None: the registry as a whole.
        """
        ...
