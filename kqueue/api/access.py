"""The rights that a client needs to use an API, as rows of a table, and the check of the rows
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
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType


class Applies(enum.Enum):
    """To what a rule applies, and who checks it; see the module."""

    WHOLE = "the request"
    EACH = "each resource"


class Rule(NamedTuple):
    """One row.

    `note`: when the rule applies, or what a denial does, as the table in the docs prints it; empty:
    always, and the error of the resource's kind. `field`: the request's field with the resource's
    name, for a rule of the whole request on anything but the cluster.
    """

    operation: AclOperation
    resource_type: ResourceType
    applies: Applies = Applies.EACH
    note: str = ""
    field: str = ""


EVERYBODY: tuple[Rule, ...] = ()
"""The rules of an API that every client may use."""


def on_cluster(operation: AclOperation, note: str = "") -> Rule:
    """Return the rule of a request that needs `operation` on the cluster to do anything at all."""
    return Rule(operation, ResourceType.CLUSTER, Applies.WHOLE, note)


def on_group(operation: AclOperation) -> Rule:
    """Return the rule of a request about one group, which it names in `group_id`."""
    return Rule(operation, ResourceType.GROUP, Applies.WHOLE, field="group_id")


def on_transactional_id(operation: AclOperation) -> Rule:
    """Return the rule of a request about one `transactional_id`."""
    return Rule(operation, ResourceType.TRANSACTIONAL_ID, Applies.WHOLE, field="transactional_id")


def on_each(operation: AclOperation, resource_type: ResourceType, note: str = "") -> Rule:
    """Return a rule of each resource, which the handler checks."""
    return Rule(operation, resource_type, Applies.EACH, note)


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
            name = getattr(request, rule.field) or "" if rule.field else CLUSTER_NAME  # null has no name
            context.require(rule.operation, rule.resource_type, name)
        return handle(request, context)

    return checked


def _refuse(request: Any, context: RequestContext) -> Any:
    raise ClusterAuthorizationFailed("no rule says who may use this API")
