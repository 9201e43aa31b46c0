"""ACLs through kafka-python's admin; all versions have the same calls."""

from __future__ import annotations

from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
    ResourceType,
)
from kafka.errors import KafkaError

from compat_tests.clients.adapters.contract import numbered


class AclAdmin:
    _admin: KafkaAdminClient

    def allow(self, user: str, operation: str, topic: str) -> None:
        pattern = ResourcePattern(ResourceType.TOPIC, topic)
        wanted = ACL(f"User:{user}", "*", ACLOperation[operation], ACLPermissionType.ALLOW, pattern)
        with numbered(KafkaError):
            failed = self._admin.create_acls([wanted])["failed"]
            for error in failed:
                raise error

    def allowed(self, user: str) -> set[tuple[str, str]]:
        with numbered(KafkaError):
            acls, error = self._admin.describe_acls(_all_of(user))
            if error.errno:
                raise error
        return {(acl.operation.name, acl.resource_pattern.resource_name) for acl in acls}

    def forbid(self, user: str) -> int:
        with numbered(KafkaError):
            ((_, deleted, error),) = self._admin.delete_acls([_all_of(user)])
            if error.errno:
                raise error
        return len(deleted)


def _all_of(user: str) -> ACLFilter:
    anything = ResourcePatternFilter(ResourceType.ANY, None, ACLResourcePatternType.ANY)
    return ACLFilter(f"User:{user}", None, ACLOperation.ANY, ACLPermissionType.ANY, anything)
