"""What a client must be allowed to do to use an API, as rows of a table, and the check of the rows
that hold for a whole request.

Each handler module has its rows in `ACCESS`; an empty tuple means that everybody may use the API. A
rule of the WHOLE request is checked here, before the handler runs. A rule of EACH resource is
checked by the handler, which answers for the others or leaves out what may not be seen. Source:
the tables of operations in Kafka's documentation, and what Kafka does.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, NamedTuple

from kqueue.api.request_context import RequestContext
from kqueue.security.errors import ClusterAuthorizationFailed
from kqueue.security.operations import AclOperation, ResourceType


class Applies(enum.Enum):
    """To what a rule applies, and who checks it; see the module."""

    WHOLE = "the request"
    EACH = "each resource"


class Rule(NamedTuple):
    """One row.

    `note`: when the rule applies, or what a denial does, as the table in the docs prints it; empty:
    always, and the error of the resource's kind.
    """

    operation: AclOperation
    resource_type: ResourceType
    applies: Applies = Applies.EACH
    note: str = ""


def on_cluster(operation: AclOperation, note: str = "") -> Rule:
    """Return the rule of a request that needs `operation` on the cluster to do anything at all."""
    return Rule(operation, ResourceType.CLUSTER, Applies.WHOLE, note)


def guarded(
    handle: Callable[[Any, RequestContext], Any], rules: tuple[Rule, ...] | None
) -> Callable[[Any, RequestContext], Any]:
    """Return `handle` behind the rules of the whole request.

    `rules` None refuses every request: an API whose access nobody has thought about.
    """
    if rules is None:
        return _refuse
    whole = [rule for rule in rules if rule.applies is Applies.WHOLE]
    if not whole:
        return handle

    def checked(request: Any, context: RequestContext) -> Any:
        for rule in whole:
            context.require(rule.operation, rule.resource_type)
        return handle(request, context)

    return checked


def _refuse(request: Any, context: RequestContext) -> Any:
    raise ClusterAuthorizationFailed("no rule says who may use this API")
