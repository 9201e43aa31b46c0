"""The context of a request, and responses that wait for promises."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from kqueue.api.cluster_view import BrokerAddress, ClusterView, address_of
from kqueue.base.errors import (
    CoordinatorNotAvailable,
    KqueueError,
    RequestTimedOut,
    TransactionalIdAuthorizationFailed,
    UnknownTopicId,
)
from kqueue.base.names import uuid_text
from kqueue.base.promise import Promise
from kqueue.broker.access.mutation_quota import MutationQuota
from kqueue.broker.client_telemetry.subscriptions import SUBJECT_LENGTH_MAX, ClientIdentity, identity_of
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.audit import ADMINISTRATIVE, AuditEvent, Decision
from kqueue.security.authorizer import Action, Client
from kqueue.security.errors import (
    ClusterAuthorizationFailed,
    GroupAuthorizationFailed,
    TokenAuthorizationFailed,
    TopicAuthorizationFailed,
)
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from kqueue.security.principals import ANONYMOUS, Principal

if TYPE_CHECKING:
    from kqueue.broker.broker import Broker
    from kqueue.broker.topics.topics import Topic

T = TypeVar("T")
R = TypeVar("R")

CHANGE_WAIT_MS_MIN: Final = 1_000
"""Shortest wait for a change to reach the disk, whatever timeout the request has."""


REFUSALS: dict[ResourceType, type[KqueueError]] = {
    ResourceType.TOPIC: TopicAuthorizationFailed,
    ResourceType.GROUP: GroupAuthorizationFailed,
    ResourceType.CLUSTER: ClusterAuthorizationFailed,
    ResourceType.TRANSACTIONAL_ID: TransactionalIdAuthorizationFailed,
    ResourceType.DELEGATION_TOKEN: TokenAuthorizationFailed,
    ResourceType.USER: ClusterAuthorizationFailed,
}
"""The error of a denied operation, by the kind of resource."""


def _no_connection(ms: int) -> None:
    pass


@dataclass(slots=True)
class RequestContext:
    """The surroundings of a request that its handler gets besides the body. Source: Kafka's
    RequestContext.

    `client_host`: in Kafka's form (``/127.0.0.1``). `listener`: name of the listener that received
    the request. `connection`: opaque identity, shared by all requests of one connection.
    `throttle(ms)`: begins no other request of the connection for so long (KIP-219). `principal`:
    whom the connection authenticated as. `api`: the name of the API, set where there is an
    authorizer. Without one everything is allowed.
    """

    broker: Broker
    api_version: int
    client_id: str | None = None
    client_host: str = ""
    listener: str = "PLAINTEXT"
    connection: object = None
    throttle: Callable[[int], None] = _no_connection
    principal: Principal = ANONYMOUS
    api: str = ""

    def allows(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the client may do `operation` on this resource."""
        authorizer = self.broker.security.authorizer
        return authorizer is None or authorizer.authorize(self._client(), (Action(operation, resource_type, name),))[0]

    def allowed(self, operation: AclOperation, resource_type: ResourceType, names: Iterable[str]) -> Collection[str]:
        """Return those of `names` with which the client may do `operation`."""
        authorizer = self.broker.security.authorizer
        distinct = dict.fromkeys(names)
        if authorizer is None:
            return distinct
        actions = [Action(operation, resource_type, name) for name in distinct]
        decisions = authorizer.authorize(self._client(), actions)
        return {name for name, is_allowed in zip(distinct, decisions, strict=True) if is_allowed}

    def allowed_operations(
        self, operations: Sequence[AclOperation], resource_type: ResourceType, name: str
    ) -> list[AclOperation]:
        """Return those of `operations` that the client may do on this resource."""
        authorizer = self.broker.security.authorizer
        if authorizer is None:
            return list(operations)
        actions = [Action(operation, resource_type, name) for operation in operations]
        decisions = authorizer.authorize(self._client(), actions)
        return [operation for operation, is_allowed in zip(operations, decisions, strict=True) if is_allowed]

    def allows_any(self, operation: AclOperation, resource_type: ResourceType) -> bool:
        """Return whether the client may do `operation` on at least one resource of this type."""
        authorizer = self.broker.security.authorizer
        return authorizer is None or authorizer.authorize_any(self._client(), operation, resource_type)

    def require(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the error of `REFUSALS` if the client may not do `operation` on this resource."""
        if not self.permits(operation, resource_type, name):
            raise _refusal(self.principal, operation, resource_type)

    def require_or_cluster(self, operation: AclOperation, resource_type: ResourceType, name: str) -> None:
        """As `require`; the operation on the cluster allows it as well."""
        if self.allows(operation, ResourceType.CLUSTER):
            self._audit(operation, resource_type, name, is_allowed=True)
        else:
            self.require(operation, resource_type, name)

    def permits(self, operation: AclOperation, resource_type: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """As `allows`, for the operation that the client asks for: the audit log has a denial, and
        what changes something.
        """
        is_allowed = self.allows(operation, resource_type, name)
        if not is_allowed or operation in ADMINISTRATIVE:
            self._audit(operation, resource_type, name, is_allowed=is_allowed)
        return is_allowed

    def _audit(self, operation: AclOperation, resource_type: ResourceType, name: str, *, is_allowed: bool) -> None:
        security = self.broker.security
        if security.audit is None or security.authorizer is None:
            return
        decision = Decision.ALLOWED if is_allowed else Decision.DENIED
        client = getattr(self.connection, "address", "") or self.client_host.removeprefix("/")
        resource = f"{resource_type.name}:{name}"
        security.audit.write(
            AuditEvent(decision, self.principal, client, self.listener, self.api, operation.name, resource)
        )

    def topic_named(self, operation: AclOperation, name: str) -> Topic:
        """Return a topic for `operation`. It is allowed first, so that a refusal does not tell
        whether there is such a topic.

        Raises: TopicAuthorizationFailed, UnknownTopicOrPartition.
        """
        if self.broker.security.authorizer is not None:
            self.require(operation, ResourceType.TOPIC, name)
        return self.broker.topics.get(name)

    def topic_with_id(self, operation: AclOperation, id: bytes) -> Topic:
        """Return a topic for `operation`.

        Raises:
            TopicAuthorizationFailed: the client may describe the topic, but not do this.
            UnknownTopicId: there is none, or the client may not describe it. Kafka refuses such a
                topic as if its id were no secret: here nothing tells that it exists.
        """
        topic = self.broker.topics.by_id(id)
        if self.broker.security.authorizer is not None and not self.permits(operation, ResourceType.TOPIC, topic.name):
            if operation is AclOperation.DESCRIBE or not self.describes(topic.name):
                raise UnknownTopicId(f"no topic has the id {uuid_text(id)}")
            raise _refusal(self.principal, operation, ResourceType.TOPIC)
        return topic

    def describes(self, topic: str) -> bool:
        """Return whether the client may know of a topic."""
        return self.allows(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)

    def without_connection(self) -> RequestContext:
        """Return the context for what outlives the request: it keeps no connection in memory."""
        return replace(self, connection=None, throttle=_no_connection)

    def _client(self) -> Client:
        return Client(self.principal, self.client_host.removeprefix("/"), self.listener)

    def client_identity(self) -> ClientIdentity:
        """Return who sent the request, as metrics subscriptions match it."""
        software: tuple[str, str] = getattr(self.connection, "client_software", ("", ""))
        port = str(getattr(self.connection, "address", "")).rpartition(":")[2]
        return identity_of(self.client_id, software, self.client_host.removeprefix("/"), port)

    def note_software(self, name: str, version: str) -> None:
        """Keep the client's software with its connection; ApiVersions names it."""
        if self.connection is not None:
            noted: Any = self.connection
            noted.client_software = (name[:SUBJECT_LENGTH_MAX], version[:SUBJECT_LENGTH_MAX])

    def mutation_quota(self, strict_from: int) -> MutationQuota:
        """Return what counts the partitions that the request creates and deletes.

        Args: strict_from: version from which what is above the client's quota is refused.
        """
        is_strict = self.api_version >= strict_from
        quotas = self.broker.security.active_quotas
        if quotas is None:
            return MutationQuota(None, is_strict=is_strict)
        return quotas.mutations(self.principal.name, self.client_id, is_strict=is_strict)

    def cluster_view(self) -> ClusterView:
        """Return brokers and partitions as clients of this listener see them."""
        broker = self.broker
        return ClusterView(broker.metadata.cluster, self.listener, broker.identity.listeners.get(self.listener))

    def broker_address(self, node_id: int) -> BrokerAddress | None:
        """Return where clients of this listener reach a broker; None: they can't."""
        cluster = self.broker.metadata.cluster
        broker = cluster.find(node_id)
        return None if broker is None else address_of(cluster, broker, self.listener)

    def change_deadline_ms(self, timeout_ms: int) -> float:
        """Return when a request that changes something times out, on the monotonic clock.

        Kafka completes such a request in memory first, so that `timeout_ms` 0 succeeds. Here the
        change reaches the disk first: at least `CHANGE_WAIT_MS_MIN` are allowed.
        """
        return self.deadline_ms(max(timeout_ms, CHANGE_WAIT_MS_MIN))

    def deadline_ms(self, timeout_ms: int) -> float:
        """Return `timeout_ms` from now, on the monotonic clock; a negative timeout is 0."""
        return self.broker.scheduler.clock.monotonic_ms() + max(timeout_ms, 0)


def hidden_topic(context: RequestContext, topics: Iterable[str]) -> KqueueError | None:
    """Return why a group with these topics is not described to the client; None: it may be."""
    if context.broker.security.authorizer is None:
        return None
    if all(context.permits(AclOperation.DESCRIBE, ResourceType.TOPIC, topic) for topic in set(topics)):
        return None
    return TopicAuthorizationFailed("the group has topics that the client may not DESCRIBE")


def require_topics(context: RequestContext, operation: AclOperation, topics: Iterable[str]) -> None:
    """Raise TopicAuthorizationFailed if the client may not do `operation` on each of `topics`."""
    if context.broker.security.authorizer is None:
        return
    if not all(context.permits(operation, ResourceType.TOPIC, topic) for topic in set(topics)):
        raise TopicAuthorizationFailed(f"{context.principal} may not {operation.name} all of these topics")


def _refusal(principal: Principal, operation: AclOperation, resource_type: ResourceType) -> KqueueError:
    resource = resource_type.name.lower().replace("_", " ")
    return REFUSALS[resource_type](f"{principal} may not {operation.name} this {resource}")


def wait_for(
    promise: Promise[T], respond: Callable[[Promise[T]], R | DelayedOperation[R]], deadline_ms: float | None = None
) -> R | DelayedOperation[R]:
    """Return the response that depends on `promise`: now if it is settled, else a
    `DelayedOperation`.

    Args:
        respond: builds the response from `promise.result()`, which raises the promise's error.
            After the deadline it is called with `promise.done` False.
    """
    return wait_for_all((promise,), lambda: respond(promise), deadline_ms)


def wait_for_write(
    promise: Promise[T],
    respond: Callable[[Promise[T]], R | DelayedOperation[R]],
    context: RequestContext,
    timeout_ms: int | None = None,
) -> R | DelayedOperation[R]:
    """Return the response that depends on what a coordinator writes, as `wait_for`.

    What is not replicated in time is COORDINATOR_NOT_AVAILABLE: the client asks again. The
    coordinator goes on to wait, as its records may be committed later. Source: Kafka's
    CoordinatorRuntime, TransactionStateManager.appendTransactionToLog.

    Args: timeout_ms: None: `offsets.commit.timeout.ms`, which all of the group coordinator have.
    """

    def answer(promise: Promise[T]) -> R | DelayedOperation[R]:
        if not promise.done:
            promise = Promise()
            promise.fail(CoordinatorNotAvailable("the coordinator's record was not replicated in time"))
        return respond(promise)

    if timeout_ms is None:
        timeout_ms = context.broker.coordinators.groups.config.commit_timeout_ms
    return wait_for(promise, answer, context.deadline_ms(timeout_ms))


def wait_for_all(
    promises: tuple[Promise[T], ...], respond: Callable[[], R | DelayedOperation[R]], deadline_ms: float | None = None
) -> R | DelayedOperation[R]:
    """Return the response that depends on several promises; `respond` is called as above."""
    pending = list(reversed(promises))

    def all_done() -> bool:
        while pending and pending[-1].done:  # settled ones are dropped: n promises cost n looks, not n squared
            pending.pop()
        return not pending

    if all_done():
        return respond()
    return DelayedOperation(promises, deadline_ms, lambda expired: respond() if expired or all_done() else None)


def error_of(outcome: Promise[Any] | KqueueError | None, late: str) -> KqueueError | None:
    """Return the error of one change, or None: refused, failed, or not stored in time (message
    `late`).
    """
    if not isinstance(outcome, Promise):
        return outcome
    return outcome.error if outcome.done else RequestTimedOut(late)
