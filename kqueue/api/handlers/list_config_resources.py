"""ListConfigResources (key 74): the names of what has settings (KIP-714, KIP-1142).

Versions 0 and 1:

    0       client metrics subscriptions
    1       the types that the request names, none: all; groups are those that have settings

A broker describes and changes its own settings and those of all brokers only, as in Kafka: clients
send what is about one broker to that one.
"""

from __future__ import annotations

from collections.abc import Sequence

from kqueue.api.access import on_cluster
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import UnsupportedVersion
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

VERSIONS = (0, 1)
ACCESS = (on_cluster(AclOperation.DESCRIBE_CONFIGS),)
VERSION_TYPES = 1


def handle(
    request: ListConfigResourcesRequest, context: RequestContext
) -> ListConfigResourcesResponse | DelayedOperation[ListConfigResourcesResponse]:
    """Respond with all names of all requested types, each type once."""
    known = {type.value for type in ResourceType} if context.api_version >= VERSION_TYPES else set()
    unknown = [number for number in request.resource_types if number not in known]
    if unknown:
        raise UnsupportedVersion(f"unknown type of resource {unknown[0]}, expected some of {sorted(known)}")
    if context.api_version < VERSION_TYPES:
        types = [ResourceType.CLIENT_METRICS]
    else:
        types = [ResourceType(number) for number in sorted(set(request.resource_types) or known)]
    return in_slices(context, _list(types, context))


def _list(types: list[ResourceType], context: RequestContext) -> SlicedWork[ListConfigResourcesResponse]:
    response = ListConfigResourcesResponse()
    for type in types:
        for name in _names(type, context):
            response.config_resources.append(ConfigResource(resource_name=name, resource_type=type.value))
            yield None
    return response


def _names(type: ResourceType, context: RequestContext) -> Sequence[str]:
    if type in (ResourceType.BROKER, ResourceType.BROKER_LOGGER):
        return [str(broker.id) for broker in context.broker.metadata.cluster.all()]
    return context.broker.configs.names(type)
