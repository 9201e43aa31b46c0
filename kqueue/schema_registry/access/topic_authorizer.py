"""Decides by the broker's ACLs on topics: what a user may do with a subject is what the user may do
with its topic.
"""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType

from kqueue.schema_registry.rest.contract import Operation
from kqueue.schema_registry.subject_names import parse_subject
from kqueue.security.acls import AclBinding, AclIndex
from kqueue.security.authorizer import Action, AuthorizerSetup, Client
from kqueue.security.operations import CLUSTER_NAME, AclOperation, ResourceType
from kqueue.security.principals import ANONYMOUS, USER_TYPE, Principal
from kqueue.security.standard_authorizer import StandardAuthorizer

SUFFIXES = ("-key", "-value")
ON_TOPIC: Mapping[Operation, AclOperation] = MappingProxyType(
    {
        Operation.READ: AclOperation.READ,
        Operation.WRITE: AclOperation.WRITE,
        Operation.DELETE: AclOperation.DELETE,
        Operation.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS: AclOperation.ALTER_CONFIGS,
    }
)
"""The operation of Kafka on the topic that each operation on a subject needs."""
ON_CLUSTER: Mapping[Operation, AclOperation] = MappingProxyType(
    {
        Operation.READ: AclOperation.DESCRIBE,
        Operation.WRITE: AclOperation.ALTER,
        Operation.DELETE: AclOperation.ALTER,
        Operation.DESCRIBE_CONFIGS: AclOperation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS: AclOperation.ALTER_CONFIGS,
    }
)
"""The same on the cluster, for what is about the registry as a whole, or about a context."""


class TopicAuthorizer:
    """The `Authorizer` of a registry with the broker's ACLs. Before `use` only super users are
    allowed anything.

    Source: the topic ACL authorizer of Confluent's registry, with the operations of its table.

    Args:
        super_users: names of users who may do everything.
    Thread: any.
    """

    def __init__(self, super_users: Collection[str] = ()) -> None:
        self._super_users = frozenset(Principal(USER_TYPE, name) for name in super_users)
        self._lock = threading.Lock()
        self._inner = self._deciding_by(AclIndex())

    def use(self, bindings: Iterable[AclBinding]) -> None:
        """Decide by these ACLs from now on."""
        inner = self._deciding_by(AclIndex(bindings))
        with self._lock:
            self._inner = inner

    def is_allowed(self, user: str | None, operation: Operation, subject: str | None) -> bool:
        """See `Authorizer`."""
        name = None if subject is None else parse_subject(subject)
        if name is None or name.is_context:
            action = Action(ON_CLUSTER[operation], ResourceType.CLUSTER, CLUSTER_NAME)
        else:
            action = Action(ON_TOPIC[operation], ResourceType.TOPIC, topic_of(name.subject))
        client = Client(ANONYMOUS if user is None else Principal(USER_TYPE, user), "", "")
        with self._lock:
            return bool(self._inner.authorize(client, [action])[0])

    def _deciding_by(self, acls: AclIndex) -> StandardAuthorizer:
        return StandardAuthorizer(AuthorizerSetup(acls, self._super_users))


def topic_of(subject: str) -> str:
    """Return the topic of a subject without its context: the name without ``-key`` or ``-value`` at
    its end. A subject named after a record has its own name as that of a topic.
    """
    for suffix in SUFFIXES:
        if subject.endswith(suffix) and subject != suffix:
            return subject.removesuffix(suffix)
    return subject
