"""ACLs as one line of text: ``User:ann allow read,write topic:orders``.

    PRINCIPAL allow|deny OPERATIONS KIND [prefixed]:NAME [from HOST]

`PRINCIPAL`: ``User:ann``, or ``User:*`` for all. `OPERATIONS`: one or several of Kafka's,
separated by commas, or `all`. `KIND`: topic, group, transactional_id, delegation_token, user, or
`cluster` without a name. `NAME` `*` is every resource of the kind; ``topic prefixed:eu.`` are those
whose names begin with it. `HOST`: an address.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import TypeVar

from kqueue.base.errors import InvalidRequest
from kqueue.base.names import did_you_mean
from kqueue.security.acls import ANY_HOST, AclBinding, check_binding
from kqueue.security.operations import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType

E = TypeVar("E", bound=Enum)
_LINE = re.compile(
    r"(?P<principal>\S.*?) (?P<permission>allow|deny) (?P<operations>[a-z_,]+) "
    r"(?:cluster|(?P<kind>[a-z_]+)(?P<prefixed> prefixed)?:(?P<name>.+?))(?: from (?P<host>\S+))?"
)
EXAMPLE = "User:ann allow read,write topic:orders"


def parse_acls(lines: Iterable[str | AclBinding]) -> list[AclBinding]:
    """Return the ACLs of lines, one for each operation; ACLs among them stay as they are.

    Raises: InvalidRequest: with what was expected.
    """
    bindings = []
    for line in lines:
        bindings += [line] if isinstance(line, AclBinding) else _parse(line)
    for binding in bindings:
        check_binding(binding)
    return bindings


def _parse(line: str) -> list[AclBinding]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise InvalidRequest(f"expected an ACL as {EXAMPLE!r}, found {line!r:.300}")
    kind = ResourceType.CLUSTER if match["kind"] is None else _member(ResourceType, match["kind"], line)
    return [
        AclBinding(
            kind,
            match["name"] or CLUSTER_NAME,
            PatternType.PREFIXED if match["prefixed"] else PatternType.LITERAL,
            match["principal"],
            match["host"] or ANY_HOST,
            _member(AclOperation, name, line),
            AclPermission[match["permission"].upper()],
        )
        for name in match["operations"].split(",")
    ]


def _member(kind: type[E], name: str, line: str) -> E:
    """Return what an ACL may name; UNKNOWN and ANY may not be named."""
    members = {value.name.lower(): value for value in kind if value.name not in ("UNKNOWN", "ANY")}
    if name not in members:
        raise InvalidRequest(f"{line!r:.300}: {name!r} is none of {', '.join(members)}{did_you_mean(name, members)}")
    return members[name]
