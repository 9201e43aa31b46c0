"""IncrementalAlterConfigs (key 44): change single settings of resources (KIP-339).

Each resource is changed as a whole or not at all. Versions 0 and 1:

    0       SET, DELETE, APPEND, SUBTRACT; validate only
    1       flexible encoding (KIP-482)
"""

from __future__ import annotations

from kqueue.api.altered_configs import alter_all, resource_results
from kqueue.api.config_access import config_rules
from kqueue.api.request_context import RequestContext
from kqueue.base.config_resources import ConfigChange, ConfigOperation
from kqueue.base.errors import InvalidRequest
from kqueue.base.promise import Promise
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.incremental_alter_configs import (
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

VERSIONS = (0, 1)
ACCESS = config_rules(AclOperation.ALTER_CONFIGS)
ITEM_WEIGHT = 4


def handle(
    request: IncrementalAlterConfigsRequest, context: RequestContext
) -> IncrementalAlterConfigsResponse | DelayedOperation[IncrementalAlterConfigsResponse]:
    """Respond when all changes are stored and in force."""

    def alter(resource: ConfigResource, requested: AlterConfigsResource) -> Promise[None]:
        changes = [
            ConfigChange(_operation(config.config_operation), config.name, config.value) for config in requested.configs
        ]
        return context.broker.configs.alter(resource, changes, validate_only=request.validate_only)

    return alter_all(context, request.resources, alter, _respond)


def error_response(
    request: IncrementalAlterConfigsRequest, version: int, error: BaseException
) -> IncrementalAlterConfigsResponse:
    """Return `error` for every resource."""
    return _respond([(resource, error) for resource in request.resources])


def _operation(number: int) -> ConfigOperation:
    try:
        return ConfigOperation(number)
    except ValueError:
        known = ", ".join(f"{operation.value} ({operation.name})" for operation in ConfigOperation)
        raise InvalidRequest(f"Unknown operations type {number}: unknown operation, expected one of {known}") from None


def _respond(outcomes: list[tuple[AlterConfigsResource, BaseException | None]]) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(responses=resource_results(AlterConfigsResourceResponse, outcomes))
