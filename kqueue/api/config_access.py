"""Access to the settings of resources."""

from __future__ import annotations

from kqueue.api.access import Rule, on_each
from kqueue.api.request_context import RequestContext
from kqueue.base import config_resources
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType

OF_ONE = {
    config_resources.ResourceType.TOPIC.value: ResourceType.TOPIC,
    config_resources.ResourceType.GROUP.value: ResourceType.GROUP,
}
"""Kinds of resources that are allowed one by one; settings of all others are the cluster's."""


def config_rules(operation: AclOperation) -> tuple[Rule, ...]:
    """Return the rules of an API that does `operation` on settings, as `require_config_access`
    checks them.
    """
    return (
        on_each(operation, ResourceType.TOPIC),
        on_each(operation, ResourceType.GROUP),
        on_each(operation, ResourceType.CLUSTER, "for brokers, their loggers and client metrics"),
    )


def require_config_access(context: RequestContext, operation: AclOperation, resource_type: int, name: str) -> None:
    """Check that the client may do `operation` on a resource's settings. Raises the error of the
    resource's kind.
    """
    kind = OF_ONE.get(resource_type, ResourceType.CLUSTER)
    context.require(operation, kind, CLUSTER_NAME if kind is ResourceType.CLUSTER else name)
