"""The fault that denies what an authorizer allows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from random import Random

from kqueue.broker.broker import Broker
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclIndex
from kqueue.security.authorizer import Action, Authorizer, AuthorizerSetup, Client
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.testing.fault_types import Fault, FaultFilter

NoteDenial = Callable[[Fault, Action], None]


class DenyFault(Fault):
    """Denies what a line says, whatever the broker's authorizer decides.

    Each denial that the authorizer would have allowed counts.
    """

    def __init__(
        self, line: str, times: int | None, after: int, rng: Random, changed: threading.Condition, note: NoteDenial
    ) -> None:
        """Raises InvalidRequest: `line` is no ACL. ValueError: it does not deny."""
        denials = parse_acls([line])
        if denials[0].permission is not AclPermission.DENY:
            raise ValueError(f"{line!r}: expected an ACL that denies, e.g. 'User:ann deny write topic:orders'")
        super().__init__(line, FaultFilter(times=times, after=after), rng, changed)
        self._note = note
        # allows everything but what the line denies
        allowing = [
            denials[0]._replace(
                resource_type=kind,
                name="*",
                pattern_type=PatternType.LITERAL,
                principal="User:*",
                host="*",
                operation=AclOperation.ALL,
                permission=AclPermission.ALLOW,
            )
            for kind in ResourceType
            if kind > ResourceType.ANY
        ]
        self._rule = StandardAuthorizer(AuthorizerSetup(AclIndex([*allowing, *denials])))

    def attach(self, broker: Broker) -> None:
        """Let the broker ask this fault too; does nothing if it does already. Thread: the broker's.

        Raises: RuntimeError: the broker has no authorizer.
        """
        security = broker.security
        if security.authorizer is None:
            raise RuntimeError(
                "the broker has no authorizer, so nothing is asked: start it with acls=[...], or authorizer.class.name"
            )
        if isinstance(security.authorizer, DenyingAuthorizer):
            security.authorizer.faults[self] = None
        else:
            security.authorizer = DenyingAuthorizer(security.authorizer, self)

    def denies(self, client: Client, action: Action) -> bool:
        """Return whether an allowed action is denied."""
        if not self.is_active or self._rule.authorize(client, [action])[0] or not self.strikes():
            return False
        self._note(self, action)
        return True


class DenyingAuthorizer:
    """Asks the broker's authorizer, then the faults."""

    def __init__(self, inner: Authorizer, fault: DenyFault) -> None:
        self._inner = inner
        self.uses_acls = getattr(inner, "uses_acls", False)
        self.faults: dict[DenyFault, None] = {fault: None}

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        """See `Authorizer`."""
        return [
            decision and not any(fault.denies(client, action) for fault in self.faults)
            for action, decision in zip(actions, self._inner.authorize(client, actions), strict=True)
        ]

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """See `Authorizer`; the faults deny single resources only."""
        return self._inner.authorize_any(client, operation, resource_type)
