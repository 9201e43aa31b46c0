"""The contract of authorizers, and the one that decides for a broker whatever its authorizer does.

Source: Kafka's Authorizer (KIP-504).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kqueue.base import events
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import Principal

if TYPE_CHECKING:
    from kqueue.security.acls import AclIndex

logger = logging.getLogger("kqueue.security")


class Client(NamedTuple):
    """The client that asks. `host`: the address, e.g. ``10.0.0.7``. `listener`: the name of the
    listener.
    """

    principal: Principal
    host: str
    listener: str


class Action(NamedTuple):
    """An operation on one resource; `name` of the cluster is `CLUSTER_NAME`."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


class Authorizer(Protocol):
    """Decides what clients may do. Both methods answer from memory, on the broker's thread: they
    must not block. What raises, or answers anything but as many booleans as were asked for, denies.

    An authorizer whose attribute `uses_acls` is True decides by the ACLs of its `AuthorizerSetup`;
    with any other one clients can't create, delete or describe ACLs (SECURITY_DISABLED).
    """

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        """Return for each action, in order, whether `client` may do it."""
        ...

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether `client` may do `operation` on at least one resource of this type, present
        or not.
        """
        ...


@dataclass(frozen=True, slots=True)
class AuthorizerSetup:
    """The arguments of the factory of an authorizer.

    `acls`: the stored ACLs, which change while the broker serves. `super_users`,
    `allow_everyone_if_no_acl_found`: the settings of these names.
    """

    acls: AclIndex
    super_users: frozenset[Principal] = frozenset()
    allow_everyone_if_no_acl_found: bool = False


class FailClosedAuthorizer:
    """Asks an authorizer; an error of it denies, and is logged with a traceback."""

    def __init__(self, inner: Authorizer) -> None:
        self._inner = inner
        self.uses_acls = getattr(inner, "uses_acls", False) is True

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        """See `Authorizer`."""
        try:
            decisions = list(self._inner.authorize(client, actions))
        except Exception:
            events.AUTHORIZER_FAILED.log(
                logger,
                "the authorizer failed, so %d actions of %s are denied",
                actions=len(actions),
                principal=client.principal,
                exc_info=True,
            )
            return [False] * len(actions)
        if len(decisions) != len(actions):
            events.AUTHORIZER_FAILED.log(
                logger,
                "the authorizer answered %d of %d actions of %s, so all are denied",
                decisions=len(decisions),
                actions=len(actions),
                principal=client.principal,
            )
            return [False] * len(actions)
        return [decision is True for decision in decisions]

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """See `Authorizer`."""
        try:
            return self._inner.authorize_any(client, operation, resource_type) is True
        except Exception:
            events.AUTHORIZER_FAILED.log(
                logger,
                "the authorizer failed, so %s of any %s is denied to %s",
                operation=operation.name,
                resource_type=resource_type.name,
                principal=client.principal,
                exc_info=True,
            )
            return False
