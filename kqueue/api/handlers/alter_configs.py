"""AlterConfigs (key 33): replace all settings of resources (KIP-133).

What the request does not name is unset. `incremental_alter_configs` changes single settings.
Versions 0 to 2:

    0       topics and brokers; validate only
    1       clients throttle themselves (KIP-219)
    2       flexible encoding (KIP-482)

Levels of loggers can't be replaced: they have no list of those that are set.
"""

from __future__ import annotations

from kqueue.api.altered_configs import alter_all, resource_results
from kqueue.api.config_access import config_rules
from kqueue.api.request_context import RequestContext
from kqueue.base.promise import Promise
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

VERSIONS = (0, 2)
ACCESS = config_rules(AclOperation.ALTER_CONFIGS)
ITEM_WEIGHT = 4


def handle(
    request: AlterConfigsRequest, context: RequestContext
) -> AlterConfigsResponse | DelayedOperation[AlterConfigsResponse]:
    """Respond when all changes are stored and in force."""

    def alter(resource: ConfigResource, requested: AlterConfigsResource) -> Promise[None]:
        values = [(config.name, config.value) for config in requested.configs]
        return context.broker.configs.replace(resource, values, validate_only=request.validate_only)

    return alter_all(context, request.resources, alter, _respond)


def error_response(request: AlterConfigsRequest, version: int, error: BaseException) -> AlterConfigsResponse:
    """Return `error` for every resource."""
    return _respond([(resource, error) for resource in request.resources])


def _respond(outcomes: list[tuple[AlterConfigsResource, BaseException | None]]) -> AlterConfigsResponse:
    return AlterConfigsResponse(responses=resource_results(AlterConfigsResourceResponse, outcomes))
