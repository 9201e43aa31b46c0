"""The authorizer that decides by ACLs, as Kafka's StandardAuthorizer does.

A denial outweighs every permission, whatever pattern it is of. What no entry allows is denied;
`allow.everyone.if.no.acl.found` allows a resource to which no entry applies, whoever it is for.
Super users may do everything. Source: Kafka's StandardAuthorizerData, Authorizer (KIP-679).
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.security.acls import ANY_HOST, Entries, Entry, canonical_host
from kqueue.security.authorizer import Action, AuthorizerSetup, Client
from kqueue.security.operations import (
    IMPLIED_BY,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

EVERYBODY = "User:*"
"""The principal of entries for all."""
DECISIONS_MAX = 50_000
NAME_LENGTH_MAX = 249
"""Decisions that are kept, and the longest names of them, in characters: a client that asks for
ever new names can't fill the memory.
"""
Question = Action | tuple[AclOperation, ResourceType]
"""The question that was decided: an action, or whether an operation is allowed on any resource."""
Decisions = dict[Question, bool]
_NO_ENTRIES: dict[Entry, int] = {}


class StandardAuthorizer:
    """Decides by the ACLs of `setup`, and keeps decisions until they change."""

    uses_acls = True

    def __init__(self, setup: AuthorizerSetup) -> None:
        self._acls = setup.acls
        self._super_users = setup.super_users
        self._allow_without_acls = setup.allow_everyone_if_no_acl_found
        self._decisions: dict[Client, Decisions] = {}
        self._decision_count = 0
        self._decisions_version = -1

    def authorize(self, client: Client, actions: Sequence[Action]) -> Sequence[bool]:
        """See `Authorizer`."""
        if client.principal in self._super_users:
            return [True] * len(actions)
        if not self._acls.is_complete:
            return [False] * len(actions)
        decisions = self._decisions_of(client)
        results = []
        for action in actions:
            decision = decisions.get(action)
            if decision is None:
                decision = self._decide(client, action)
                if len(action.name) <= NAME_LENGTH_MAX:
                    self._keep(decisions, action, decision)
            results.append(decision)
        return results

    def authorize_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        """See `Authorizer`. An allowed prefix or name counts if no denied prefix covers it, and no
        denial of the very name. Only entries of `operation` itself, or ALL, count.
        """
        if client.principal in self._super_users:
            return True
        if not self._acls.is_complete:
            return False
        decisions, key = self._decisions_of(client), (operation, resource_type)
        decision = decisions.get(key)
        if decision is None:
            decision = self._decide_any(client, operation, resource_type)
            self._keep(decisions, key, decision)
        return decision

    def _decisions_of(self, client: Client) -> Decisions:
        if self._decisions_version != self._acls.version or self._decision_count >= DECISIONS_MAX:
            self._decisions, self._decision_count = {}, 0
            self._decisions_version = self._acls.version
        decisions = self._decisions.get(client)
        if decisions is None:
            decisions = self._decisions[client] = {}
            self._decision_count += 1
        return decisions

    def _keep(self, decisions: Decisions, key: Question, decision: bool) -> None:
        decisions[key] = decision
        self._decision_count += 1

    def _decide(self, client: Client, action: Action) -> bool:
        principals, hosts = _matching(client)
        sufficient = {action.operation, AclOperation.ALL, *IMPLIED_BY.get(action.operation, ())}
        prohibitive = (action.operation, AclOperation.ALL)
        is_allowed = has_acls = False
        for entries in self._acls.of_resource(action.resource_type, action.name):
            has_acls = True
            for principal in principals:
                for host, operation, permission in entries.get(principal, _NO_ENTRIES):
                    if host not in hosts:
                        continue
                    if permission is AclPermission.ALLOW:
                        is_allowed |= operation in sufficient
                    elif operation in prohibitive:
                        return False
        return is_allowed or (self._allow_without_acls and not has_acls)

    def _decide_any(self, client: Client, operation: AclOperation, resource_type: ResourceType) -> bool:
        if self._decide(client, Action(operation, resource_type, _SOME_NAME)):
            return True
        operations = (operation, AclOperation.ALL)
        names = self._acls.patterns(resource_type, PatternType.LITERAL)
        prefixes = self._acls.patterns(resource_type, PatternType.PREFIXED)
        if _has(names.get(WILDCARD, {}), client, operations, AclPermission.DENY):
            return False
        if _has(names.get(WILDCARD, {}), client, operations, AclPermission.ALLOW):
            return True
        denied = {name for name, entries in prefixes.items() if _has(entries, client, operations, AclPermission.DENY)}
        for name, entries in names.items():
            if (
                _has(entries, client, operations, AclPermission.ALLOW)
                and not _has(entries, client, operations, AclPermission.DENY)
                and not _is_covered(name, denied)
            ):
                return True
        return any(
            _has(entries, client, operations, AclPermission.ALLOW) and not _is_covered(name, denied)
            for name, entries in prefixes.items()
        )


_SOME_NAME = "hardcode"
"""Kafka's: what is allowed for this name, as for super users, is allowed for any."""


def _matching(client: Client) -> tuple[tuple[str, ...], tuple[str, str]]:
    principal = str(client.principal)
    principals = (principal,) if principal == EVERYBODY else (principal, EVERYBODY)
    return principals, (ANY_HOST, canonical_host(client.host))


def _has(entries: Entries, client: Client, operations: Sequence[AclOperation], permission: AclPermission) -> bool:
    principals, hosts = _matching(client)
    return any(
        entry.permission is permission and entry.operation in operations and entry.host in hosts
        for principal in principals
        for entry in entries.get(principal, _NO_ENTRIES)
    )


def _is_covered(name: str, prefixes: set[str]) -> bool:
    return any(name[:length] in prefixes for length in {len(prefix) for prefix in prefixes})
