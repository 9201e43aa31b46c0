"""The flags of `kqueue acls`, those of kafka-acls, and the ACLs that they stand for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from kqueue.base.errors import InvalidRequest
from kqueue.base.names import did_you_mean
from kqueue.security.acls import ANY_HOST, AclBinding, AclFilter, check_binding
from kqueue.security.operations import (
    CLUSTER_NAME,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)

F = TypeVar("F", bound=Callable[..., Any])
OPERATIONS = {
    "".join(word.capitalize() for word in operation.name.split("_")): operation
    for operation in AclOperation
    if operation >= AclOperation.ALL
}
"""Operations by Kafka's names, e.g. DescribeConfigs."""
_CONFIGS = frozenset((AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS))
_RWCDDA = frozenset(operation for operation in AclOperation if AclOperation.READ <= operation <= AclOperation.DESCRIBE)
SUPPORTED: dict[ResourceType, frozenset[AclOperation]] = {
    ResourceType.TOPIC: _RWCDDA | _CONFIGS,
    ResourceType.GROUP: frozenset((AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE)) | _CONFIGS,
    ResourceType.CLUSTER: _CONFIGS
    | {
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    },
    ResourceType.TRANSACTIONAL_ID: frozenset(
        (AclOperation.DESCRIBE, AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT)
    ),
    ResourceType.DELEGATION_TOKEN: frozenset((AclOperation.DESCRIBE,)),
    ResourceType.USER: frozenset((AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS)),
}
"""The operations that a kind of resource has, beside ALL. Source: Kafka's AclEntry."""


@dataclass(frozen=True)
class Selection:
    """The values of one command's flags; each names what its flag of kafka-acls does."""

    topic: Sequence[str] = ()
    group: Sequence[str] = ()
    cluster: bool = False
    transactional_id: Sequence[str] = ()
    delegation_token: Sequence[str] = ()
    user_principal: Sequence[str] = ()
    resource_pattern_type: str = "literal"
    allow_principal: Sequence[str] = ()
    deny_principal: Sequence[str] = ()
    allow_host: Sequence[str] = ()
    deny_host: Sequence[str] = ()
    operation: Sequence[str] = ()
    producer: bool = False
    consumer: bool = False
    idempotent: bool = False

    @property
    def principals(self) -> list[tuple[AclPermission, str, str]]:
        """Each principal with its permission and host."""
        return [
            (permission, principal, host)
            for permission, principals, hosts in (
                (AclPermission.ALLOW, self.allow_principal, self.allow_host),
                (AclPermission.DENY, self.deny_principal, self.deny_host),
            )
            for principal in principals
            for host in hosts or (ANY_HOST,)
        ]

    @property
    def pattern_type(self) -> PatternType:
        """The type of pattern that the names are."""
        return PatternType[self.resource_pattern_type.upper()]

    @property
    def resources(self) -> list[tuple[ResourceType, str, PatternType]]:
        """The named resources. The cluster's pattern is always literal."""
        named = (
            (ResourceType.TOPIC, self.topic),
            (ResourceType.GROUP, self.group),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_id),
            (ResourceType.DELEGATION_TOKEN, self.delegation_token),
            (ResourceType.USER, self.user_principal),
        )
        chosen = [(kind, name, self.pattern_type) for kind, names in named for name in names]
        if self.cluster:
            chosen.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL))
        return chosen

    @property
    def granted(self) -> list[tuple[ResourceType, str, PatternType, AclOperation]]:
        """Resources with the operations that the flags name, or that their role needs."""
        if not (self.producer or self.consumer):
            operations = [OPERATIONS[name] for name in self.operation or ("All",)]
            return [(*resource, operation) for resource in self.resources for operation in operations]
        rows = []
        for resource in self.resources:
            rows += [(*resource, operation) for operation in self._of_role(resource[0])]
        if self.idempotent:
            rows.append((ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL, AclOperation.IDEMPOTENT_WRITE))
        return list(dict.fromkeys(rows))

    def _of_role(self, kind: ResourceType) -> list[AclOperation]:
        operations = []
        if self.producer and kind is ResourceType.TOPIC:
            operations += [AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE]
        if self.producer and kind is ResourceType.TRANSACTIONAL_ID:
            operations += [AclOperation.WRITE, AclOperation.DESCRIBE]
        if self.consumer and kind is ResourceType.TOPIC:
            operations += [AclOperation.READ, AclOperation.DESCRIBE]
        if self.consumer and kind is ResourceType.GROUP:
            operations.append(AclOperation.READ)
        return operations


def bindings_of(selection: Selection) -> list[AclBinding]:
    """Return the ACLs to add. Raises UsageError: flags that contradict each other."""
    _check(selection)
    if selection.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise click.UsageError("an ACL is added for a literal name or a prefix: --resource-pattern-type says which")
    bindings = [
        AclBinding(kind, name, pattern_type, principal, host, operation, permission)
        for kind, name, pattern_type, operation in selection.granted
        for permission, principal, host in selection.principals
    ]
    for binding in bindings:
        try:
            check_binding(binding)
        except InvalidRequest as error:
            raise click.UsageError(str(error)) from None
    return list(dict.fromkeys(bindings))


def filters_of(selection: Selection, *, needs_resource: bool = True) -> list[AclFilter]:
    """Return the filters that find the selected ACLs; without principals all of the resources.

    Raises: UsageError: as `bindings_of`.
    """
    if not selection.resources and not needs_resource:
        return [AclFilter()]
    _check(selection)
    if not selection.principals:
        return [AclFilter(*resource) for resource in selection.resources]
    return [
        AclFilter(kind, name, pattern_type, principal, host, operation, permission)
        for kind, name, pattern_type, operation in selection.granted
        for permission, principal, host in selection.principals
    ]


def _check(selection: Selection) -> None:
    if not selection.resources:
        raise click.UsageError(
            "say of which resource: --topic, --group, --cluster, --transactional-id, --delegation-token or "
            "--user-principal"
        )
    for allow, deny in (("allow_host", "allow_principal"), ("deny_host", "deny_principal")):
        if getattr(selection, allow) and not getattr(selection, deny):
            raise click.UsageError(f"--{allow.replace('_', '-')} needs --{deny.replace('_', '-')}")
    if selection.producer or selection.consumer:
        _check_role(selection)
    elif selection.idempotent:
        raise click.UsageError("--idempotent needs --producer")
    for kind, _, _, operation in selection.granted:
        if operation not in (*SUPPORTED[kind], AclOperation.ALL):
            there = ", ".join(name for name, one in OPERATIONS.items() if one in SUPPORTED[kind])
            raise click.UsageError(f"{kind.name} has no operation {operation.name}; it has {there}, All")


def _check_role(selection: Selection) -> None:
    if selection.operation or selection.deny_principal:
        raise click.UsageError("--producer and --consumer allow what they need: leave out --operation and --deny-…")
    if not selection.topic:
        raise click.UsageError("--producer and --consumer need --topic")
    if selection.consumer and not selection.group:
        raise click.UsageError("--consumer needs --group")
    if selection.idempotent and not selection.producer:
        raise click.UsageError("--idempotent needs --producer")
    if selection.group and not selection.consumer:
        raise click.UsageError("--producer has no groups: add --consumer, or leave out --group")


def _operation(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    known = {name.lower(): name for name in OPERATIONS} | {
        operation.name.lower(): name for name, operation in OPERATIONS.items()
    }
    for value in values:
        if value.lower() not in known:
            raise click.BadParameter(
                f"{value!r} is none of {', '.join(OPERATIONS)}{did_you_mean(value, OPERATIONS)}", ctx, param
            )
    return tuple(known[value.lower()] for value in values)


def _many(name: str, metavar: str, text: str) -> Callable[[F], F]:
    return click.option(name, multiple=True, metavar=metavar, help=f"{text}; may be repeated.")


def selection_options(command: F) -> F:
    """Add the flags that name resources."""
    for option in (
        click.option(
            "--resource-pattern-type",
            type=click.Choice(["literal", "prefixed", "any", "match"], case_sensitive=False),
            default="literal",
            show_default=True,
            help="literal: this name, or * for all. prefixed: all names that begin so. To find ACLs also any: of this "
            "name or prefix, and match: all that apply to the name.",
        ),
        _many("--user-principal", "TYPE:NAME", "A user, as a resource"),
        _many("--delegation-token", "ID", "A delegation token"),
        _many("--transactional-id", "ID", "A transactional id"),
        click.option("--cluster", is_flag=True, help="The cluster."),
        _many("--group", "NAME", "A group"),
        _many("--topic", "NAME", "A topic"),
    ):
        command = option(command)
    return command


def role_options(command: F) -> F:
    """Add the flags that name principals, operations and roles."""
    for option in (
        click.option("--idempotent", is_flag=True, help="With --producer: IdempotentWrite on the cluster."),
        click.option("--consumer", is_flag=True, help="What a consumer of the topics in the groups needs."),
        click.option("--producer", is_flag=True, help="What a producer to the topics needs."),
        click.option(
            "--operation", multiple=True, callback=_operation, metavar="NAME", help="Read, Write, …; default: All."
        ),
        _many("--deny-host", "ADDRESS", "From where they may not; default: anywhere"),
        _many("--allow-host", "ADDRESS", "From where they may; default: anywhere"),
        _many("--deny-principal", "TYPE:NAME", "Who may not"),
        _many("--allow-principal", "TYPE:NAME", "Who may"),
    ):
        command = option(command)
    return command
