"""FindCoordinator (key 10): the broker that coordinates a group, a transactional id or a share
partition.

A single broker coordinates all. In a cluster it is the leader of the id's partition of the internal
topic, which is created when it is first needed; COORDINATOR_NOT_AVAILABLE while there is none.

Versions 0 to 6:

    0       a group
    1       key type: group or transactional id (KIP-98); throttle time; error messages
    2       clients throttle themselves (KIP-219)
    3       flexible encoding (KIP-482)
    4       several keys at once (KIP-699)
    5       TRANSACTION_ABORTABLE is known (KIP-890)
    6       key type share partition (KIP-932): a key `group:topic id:partition`, the id in base64
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kqueue.api.access import on_each
from kqueue.api.cluster_view import BrokerAddress
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, wait_for
from kqueue.api.slices import collect, in_slices
from kqueue.base.coordinators import coordinator_partition
from kqueue.base.errors import CoordinatorNotAvailable, InvalidRequest, KqueueError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.topics.topics import OFFSETS_TOPIC, SHARE_TOPIC, TRANSACTIONS_TOPIC
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

VERSIONS = (0, 6)
ACCESS = (
    on_each(AclOperation.DESCRIBE, ResourceType.GROUP, "of a key that is a group"),
    on_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "of a key that is one"),
    on_each(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, "for a key that is a share partition"),
)
ITEM_WEIGHT = 4
VERSION_BATCHES = 4
VERSION_SHARE = 6
GROUP = 0
TRANSACTION = 1
SHARE = 2
SHARE_KEY = re.compile(r".+:[A-Za-z0-9_-]{22}:[0-9]{1,10}", re.DOTALL)
NO_NODE = -1
CREATION_WAIT_MS = 5_000
NEEDED = {
    GROUP: (AclOperation.DESCRIBE, ResourceType.GROUP),
    TRANSACTION: (AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID),
    SHARE: (AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER),
}
"""The rights that a client needs, by type of key."""
TOPICS = {GROUP: OFFSETS_TOPIC, TRANSACTION: TRANSACTIONS_TOPIC, SHARE: SHARE_TOPIC}
"""Internal topic by type of key."""


def handle(
    request: FindCoordinatorRequest, context: RequestContext
) -> FindCoordinatorResponse | DelayedOperation[FindCoordinatorResponse]:
    """Return the broker for each key, once the internal topic exists. Raises InvalidRequest: keys
    of this type have no coordinator.
    """
    if not _has_coordinator(request.key_type, context.api_version):
        return error_response(
            request, context.api_version, InvalidRequest(f"keys of type {request.key_type} have no coordinator here")
        )

    def respond() -> FindCoordinatorResponse | DelayedOperation[FindCoordinatorResponse]:
        finder = _Finder(request.key_type, context)
        if context.api_version < VERSION_BATCHES:
            return finder.find_one(request.key)
        return in_slices(context, finder.find_all(request.coordinator_keys))

    broker, name = context.broker, TOPICS[request.key_type]
    if broker.metadata.cluster.is_alone or broker.topics.find(name) is not None or not _may_find(request, context):
        return respond()
    try:
        promise = broker.topics.create_on_demand(name)
    except KqueueError as error:
        refused = CoordinatorNotAvailable(f"topic {name}, which the coordinator needs, can't be created: {error}")
        return error_response(request, context.api_version, refused)
    return wait_for(promise, lambda _: respond(), context.deadline_ms(CREATION_WAIT_MS))


def _has_coordinator(key_type: int, version: int) -> bool:
    return key_type in (GROUP, TRANSACTION) or (key_type == SHARE and version >= VERSION_SHARE)


def _may_find(request: FindCoordinatorRequest, context: RequestContext) -> bool:
    """Return whether the client may find the coordinator of some key."""
    keys = request.coordinator_keys if context.api_version >= VERSION_BATCHES else [request.key]
    return any(_denial(key, request.key_type, context) is None for key in keys)


def _denial(key: str, key_type: int, context: RequestContext) -> KqueueError | None:
    operation, resource_type = NEEDED[key_type]
    try:
        context.require(operation, resource_type, CLUSTER_NAME if key_type == SHARE else key)
    except KqueueError as error:
        return error.with_traceback(None)
    return None


class _Finder:
    """Finds the coordinators of one request's keys."""

    def __init__(self, key_type: int, context: RequestContext) -> None:
        self._key_type = key_type
        self._name = TOPICS[key_type]
        self._pattern = SHARE_KEY if key_type == SHARE else None
        self._context = context
        cluster = context.broker.metadata.cluster
        self._own = context.broker_address(cluster.node_id) if cluster.is_alone else None
        self._topic = context.broker.topics.find(self._name)

    def find_one(self, key: str) -> FindCoordinatorResponse:
        """Return the response before batches of keys."""
        error = _denial(key, self._key_type, self._context)
        address = self._address(key) if error is None else None
        if address is None:
            error = error or _not_available(self._name)
            return FindCoordinatorResponse(
                error_code=code_of(error), error_message=message_of(error), node_id=NO_NODE, port=NO_NODE
            )
        return FindCoordinatorResponse(node_id=address.id, host=address.host, port=address.port)

    def find_all(self, keys: Iterable[str]) -> SlicedWork[FindCoordinatorResponse]:
        """Return the response for several keys, each once."""
        coordinators = yield from collect(self._coordinator, dict.fromkeys(keys))
        return FindCoordinatorResponse(coordinators=coordinators)

    def _coordinator(self, key: str) -> Coordinator:
        denied = _denial(key, self._key_type, self._context)
        if denied is not None:
            return _refused(key, denied)
        if self._pattern is not None and not self._pattern.fullmatch(key):
            return _refused(key, InvalidRequest("a key of type 2 is group:topic id:partition, the topic id in base64"))
        address = self._address(key)
        if address is None:
            return _refused(key, _not_available(self._name))
        return Coordinator(key=key, node_id=address.id, host=address.host, port=address.port)

    def _address(self, key: str) -> BrokerAddress | None:
        if self._own is not None or self._topic is None:
            return self._own
        partitions = self._topic.partitions
        return self._context.broker_address(partitions[coordinator_partition(key, len(partitions))].leader)


def _not_available(topic: str) -> CoordinatorNotAvailable:
    return CoordinatorNotAvailable(f"no broker leads the partition of {topic} that keeps this id now; try again")


def error_response(request: FindCoordinatorRequest, version: int, error: BaseException) -> FindCoordinatorResponse:
    """Return `error` for each key."""
    if version < VERSION_BATCHES:
        return FindCoordinatorResponse(
            error_code=code_of(error), error_message=message_of(error), node_id=NO_NODE, port=NO_NODE
        )
    return FindCoordinatorResponse(coordinators=[_refused(key, error) for key in request.coordinator_keys])


def _refused(key: str, error: BaseException) -> Coordinator:
    return Coordinator(
        key=key, node_id=NO_NODE, port=NO_NODE, error_code=code_of(error), error_message=message_of(error)
    )
