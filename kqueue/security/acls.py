"""Entries of access control, filters over them, and an index that finds those of one resource.

Source: Kafka's AclBinding, AclBindingFilter (KIP-11, KIP-290), AclControlManager.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from kqueue.base.errors import CorruptData, InvalidRequest
from kqueue.security.operations import (
    CLUSTER_NAME,
    WILDCARD,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)
from kqueue.security.principals import parse_principal

ANY_HOST = "*"
ID_LENGTH = 32


class AclBinding(NamedTuple):
    """One entry: `principal` may, or may not, do `operation` from `host` on what the pattern names.

    `name` `*` of a LITERAL pattern is every resource of the type. `principal`: ``User:ann``, or
    ``User:*`` for all. `host`: an address, or `*`. `operation` ALL is every operation.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: AclOperation
    permission: AclPermission

    def __str__(self) -> str:
        pattern = "" if self.pattern_type is PatternType.LITERAL else f" {self.pattern_type.name.lower()}"
        name = f"{pattern}:{self.name}"
        if self.resource_type is ResourceType.CLUSTER and not pattern:
            name = ""
        host = "" if self.host == ANY_HOST else f" from {self.host}"
        return (
            f"{self.principal} {self.permission.name.lower()} {self.operation.name.lower()} "
            f"{self.resource_type.name.lower()}{name}{host}"
        )

    @property
    def id(self) -> str:
        """32 hexadecimal digits, the same for equal entries, so that none can be stored twice."""
        import hashlib  # on use: it loads OpenSSL

        return hashlib.sha256(self.to_json().encode()).hexdigest()[:ID_LENGTH]

    def to_json(self) -> str:
        """Return the entry as it is stored."""
        return json.dumps(
            {
                "resource_type": self.resource_type.name,
                "name": self.name,
                "pattern_type": self.pattern_type.name,
                "principal": self.principal,
                "host": self.host,
                "operation": self.operation.name,
                "permission": self.permission.name,
            }
        )


def binding_of_json(value: bytes) -> AclBinding:
    """Parse a stored entry. Raises: CorruptData."""
    try:
        row = json.loads(value)
        binding = AclBinding(
            ResourceType[row["resource_type"]],
            row["name"],
            PatternType[row["pattern_type"]],
            row["principal"],
            row["host"],
            AclOperation[row["operation"]],
            AclPermission[row["permission"]],
        )
        check_binding(binding)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidRequest) as error:
        raise CorruptData(f"the stored ACL {value[:200]!r} can't be read: {error!r:.200}") from error
    return binding


def check_binding(binding: AclBinding) -> None:
    """Raise InvalidRequest if an entry can't be created, as Kafka does."""
    if binding.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise InvalidRequest(f"Invalid resourceType {binding.resource_type.name}")
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise InvalidRequest(f"Invalid patternType {binding.pattern_type.name}")
    if binding.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise InvalidRequest(f"Invalid operation {binding.operation.name}")
    if binding.permission not in (AclPermission.ALLOW, AclPermission.DENY):
        raise InvalidRequest(f"Invalid permissionType {binding.permission.name}")
    if not binding.name:
        raise InvalidRequest("the name of a resource is not empty")
    if binding.resource_type is ResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        raise InvalidRequest(f"the only name of a CLUSTER resource is {CLUSTER_NAME}, found {binding.name!r:.200}")
    if not binding.host:
        raise InvalidRequest("the host of an ACL is an address or *, found nothing")
    parse_principal(binding.principal)


class AclFilter(NamedTuple):
    """A filter of entries; None, and ANY of a type, match everything.

    `pattern_type` MATCH finds the entries that apply to a resource called `name`.
    """

    resource_type: ResourceType = ResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: AclOperation = AclOperation.ANY
    permission: AclPermission = AclPermission.ANY

    def matches(self, binding: AclBinding) -> bool:
        """Return whether an entry is among those that are looked for."""
        return self._matches_rule(binding) and self._matches_client(binding) and self._matches_pattern(binding)

    def _matches_rule(self, binding: AclBinding) -> bool:
        """Whether what is allowed or denied is looked for."""
        kind, operation, permission = self.resource_type, self.operation, self.permission
        return (
            kind in (ResourceType.ANY, binding.resource_type)
            and operation in (AclOperation.ANY, binding.operation)
            and permission in (AclPermission.ANY, binding.permission)
        )

    def _matches_client(self, binding: AclBinding) -> bool:
        """Whether the one whom it concerns is looked for."""
        return self.principal in (None, binding.principal) and self.host in (None, binding.host)

    def _matches_pattern(self, binding: AclBinding) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, binding.pattern_type):
            return False
        if self.name is None or self.name == binding.name:
            return True
        if self.pattern_type is not PatternType.MATCH:
            return False
        if binding.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(binding.name)
        return binding.name == WILDCARD


def check_filter(acl_filter: AclFilter) -> None:
    """Raise InvalidRequest if a filter has a value that is unknown."""
    for value in (acl_filter.resource_type, acl_filter.pattern_type, acl_filter.operation, acl_filter.permission):
        if value.name == "UNKNOWN":
            raise InvalidRequest(f"{type(value).__name__} of the filter is unknown to this broker")


@lru_cache(maxsize=4096)
def canonical_host(host: str) -> str:
    """Return one text for all that name one address (``::1`` is Java's ``0:0:0:0:0:0:0:1``); IPv4
    addresses mapped into IPv6 are IPv4. What is no address stays as it is.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return str(mapped or address)


class Entry(NamedTuple):
    """The rule of an entry for the clients of its principal."""

    host: str
    operation: AclOperation
    permission: AclPermission


Entries = dict[str, dict[Entry, int]]
"""The entries of one pattern, by principal, each with how many bindings say it."""


class AclIndex:
    """All entries, by resource: the literal patterns of a name, and the prefixes of it.

    Memory: about 0.6 KB an entry. Thread: of the broker.
    """

    def __init__(self, bindings: Iterable[AclBinding] = ()) -> None:
        self.version = 0
        """Grows with every change."""
        self.is_complete = True
        """False: not all stored entries are known, so that nothing may be decided by them."""
        self._bindings: dict[AclBinding, None] = {}
        self._literal: dict[ResourceType, dict[str, Entries]] = {}
        self._prefixed: dict[ResourceType, dict[str, Entries]] = {}
        self._prefix_lengths: dict[ResourceType, list[int]] = {}  # sorted; missing: to be counted again
        for binding in bindings:
            self.add(binding)

    def __len__(self) -> int:
        return len(self._bindings)

    def __iter__(self) -> Iterator[AclBinding]:
        return iter(self._bindings)

    def __contains__(self, binding: object) -> bool:
        return binding in self._bindings

    def add(self, binding: AclBinding) -> None:
        """Add an entry; one that is there already changes nothing."""
        if binding in self._bindings:
            return
        self._bindings[binding] = None
        entries = self._patterns(binding).setdefault(binding.name, {}).setdefault(binding.principal, {})
        entry = _entry(binding)
        entries[entry] = entries.get(entry, 0) + 1
        self._changed(binding)

    def discard(self, binding: AclBinding) -> None:
        """Remove an entry; one that is missing changes nothing."""
        if binding not in self._bindings:
            return
        del self._bindings[binding]
        patterns = self._patterns(binding)
        of_pattern = patterns[binding.name]
        entries, entry = of_pattern[binding.principal], _entry(binding)
        entries[entry] -= 1
        if not entries[entry]:
            del entries[entry]
        if not entries:
            del of_pattern[binding.principal]
        if not of_pattern:
            del patterns[binding.name]
        self._changed(binding)

    def swap(self, other: AclIndex) -> None:
        """Take the entries of another index, which gets those of this one."""
        for name in ("_bindings", "_literal", "_prefixed", "_prefix_lengths"):
            own = getattr(self, name)
            setattr(self, name, getattr(other, name))
            setattr(other, name, own)
        self.version += 1

    def of_resource(self, resource_type: ResourceType, name: str) -> Iterator[Entries]:
        """Yield the entries of each pattern that applies to a resource."""
        literal = self._literal.get(resource_type)
        if literal:
            if name in literal:
                yield literal[name]
            if name != WILDCARD and WILDCARD in literal:
                yield literal[WILDCARD]
        prefixed = self._prefixed.get(resource_type)
        if prefixed:
            for length in self._lengths(resource_type):
                if length > len(name):
                    break
                of_prefix = prefixed.get(name[:length])
                if of_prefix is not None:
                    yield of_prefix

    def patterns(self, resource_type: ResourceType, pattern_type: PatternType) -> dict[str, Entries]:
        """Return the entries of all patterns of a kind, by the pattern's name."""
        table = self._prefixed if pattern_type is PatternType.PREFIXED else self._literal
        return table.get(resource_type, {})

    def _patterns(self, binding: AclBinding) -> dict[str, Entries]:
        table = self._prefixed if binding.pattern_type is PatternType.PREFIXED else self._literal
        return table.setdefault(binding.resource_type, {})

    def _lengths(self, resource_type: ResourceType) -> list[int]:
        lengths = self._prefix_lengths.get(resource_type)
        if lengths is None:
            lengths = sorted({len(prefix) for prefix in self._prefixed[resource_type]})
            self._prefix_lengths[resource_type] = lengths
        return lengths

    def _changed(self, binding: AclBinding) -> None:
        self.version += 1
        if binding.pattern_type is PatternType.PREFIXED:
            self._prefix_lengths.pop(binding.resource_type, None)


def _entry(binding: AclBinding) -> Entry:
    return Entry(canonical_host(binding.host), binding.operation, binding.permission)
