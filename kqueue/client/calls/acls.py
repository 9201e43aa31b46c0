"""CreateAcls, DescribeAcls, DeleteAcls: the entries of access control."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kqueue.client.calls.reassignments import Refusal
from kqueue.client.errors import BadAnswer
from kqueue.client.retry_policy import response_error
from kqueue.security.acls import AclBinding, AclFilter
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType, member
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from kqueue.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest, DeleteAclsResponse
from kqueue.wire.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

VERSIONS = (1, 3)


class CreateAcls:
    """CreateAcls. Creating an entry twice is the same as once. Result: the outcome of each."""

    api = BY_MODULE["create_acls"]
    versions = VERSIONS
    repeatable = True

    def __init__(self, entries: Sequence[AclBinding]) -> None:
        self.entries = entries

    def request(self, version: int) -> CreateAclsRequest:
        return CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=entry.resource_type,
                    resource_name=entry.name,
                    resource_pattern_type=entry.pattern_type,
                    principal=entry.principal,
                    host=entry.host,
                    operation=entry.operation,
                    permission_type=entry.permission,
                )
                for entry in self.entries
            ]
        )

    def result(self, version: int, response: CreateAclsResponse, broker: str) -> list[Refusal]:
        if len(response.results) != len(self.entries):
            raise BadAnswer(f"{broker} answered {len(response.results)} of {len(self.entries)} ACLs")
        return [Refusal(row.error_code, row.error_message) for row in response.results]


class DescribeAcls:
    """DescribeAcls. Result: the entries that the filter finds."""

    api = BY_MODULE["describe_acls"]
    versions = VERSIONS
    repeatable = True

    def __init__(self, entry_filter: AclFilter) -> None:
        self.filter = entry_filter

    def request(self, version: int) -> DescribeAclsRequest:
        return DescribeAclsRequest(
            resource_type_filter=self.filter.resource_type,
            resource_name_filter=self.filter.name,
            pattern_type_filter=self.filter.pattern_type,
            principal_filter=self.filter.principal,
            host_filter=self.filter.host,
            operation=self.filter.operation,
            permission_type=self.filter.permission,
        )

    def result(self, version: int, response: DescribeAclsResponse, broker: str) -> list[AclBinding]:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker, message=response.error_message)
        return [_binding(resource, row) for resource in response.resources for row in resource.acls]


class DeleteAcls:
    """DeleteAcls. Not repeatable: after a lost response the entries may be gone, and not listed."""

    api = BY_MODULE["delete_acls"]
    versions = VERSIONS
    repeatable = False

    def __init__(self, filters: Sequence[AclFilter]) -> None:
        self.filters = filters

    def request(self, version: int) -> DeleteAclsRequest:
        return DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=row.resource_type,
                    resource_name_filter=row.name,
                    pattern_type_filter=row.pattern_type,
                    principal_filter=row.principal,
                    host_filter=row.host,
                    operation=row.operation,
                    permission_type=row.permission,
                )
                for row in self.filters
            ]
        )

    def result(self, version: int, response: DeleteAclsResponse, broker: str) -> list[AclBinding]:
        """Return the deleted entries. Raises BrokerRefused: the first filter that was refused."""
        entries: dict[AclBinding, None] = {}
        for result in response.filter_results:
            if result.error_code:
                raise response_error(result.error_code, self.api.name, broker, message=result.error_message)
            for row in result.matching_acls:
                entries[_binding(row, row)] = None
        return list(entries)


def _binding(resource: Any, row: Any) -> AclBinding:
    """Return an entry of a response; numbers that are not known are UNKNOWN."""
    return AclBinding(
        member(ResourceType, resource.resource_type),
        resource.resource_name,
        member(PatternType, resource.pattern_type),
        row.principal,
        row.host,
        member(AclOperation, row.operation),
        member(AclPermission, row.permission_type),
    )
