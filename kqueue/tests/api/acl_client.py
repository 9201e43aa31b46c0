"""A simulated client of a broker with an authorizer, and requests about ACLs."""

from __future__ import annotations

from kqueue.security.acls import AclBinding, AclFilter
from kqueue.security.authorizer import AuthorizerSetup
from kqueue.security.principals import ANONYMOUS
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages.create_acls import AclCreation, CreateAclsRequest
from kqueue.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kqueue.wire.messages.describe_acls import DescribeAclsRequest


def acl_client(sim: Simulation | None = None) -> SimulatedClient:
    """Return a super user of a broker that decides by ACLs."""
    client = SimulatedClient(sim=sim)
    security = client.sim.broker.security
    security.authorizer = StandardAuthorizer(AuthorizerSetup(security.acls.index, frozenset({ANONYMOUS})))
    return client


def creation(*bindings: AclBinding) -> CreateAclsRequest:
    """Return the request that creates ACLs."""
    return CreateAclsRequest(
        creations=[
            AclCreation(
                resource_type=row.resource_type,
                resource_name=row.name,
                resource_pattern_type=row.pattern_type,
                principal=row.principal,
                host=row.host,
                operation=row.operation,
                permission_type=row.permission,
            )
            for row in bindings
        ]
    )


def description(row: AclFilter) -> DescribeAclsRequest:
    """Return the request that finds ACLs."""
    return DescribeAclsRequest(
        resource_type_filter=row.resource_type,
        resource_name_filter=row.name,
        pattern_type_filter=row.pattern_type,
        principal_filter=row.principal,
        host_filter=row.host,
        operation=row.operation,
        permission_type=row.permission,
    )


def deletion(*filters: AclFilter) -> DeleteAclsRequest:
    """Return the request that deletes ACLs."""
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
            for row in filters
        ]
    )


def create(client: SimulatedClient, *bindings: AclBinding, version: int = 3) -> list[int]:
    """Create ACLs; return the error codes."""
    return [row.error_code for row in client.ask(creation(*bindings), version).results]


def described(client: SimulatedClient, acl_filter: AclFilter | None = None, version: int = 3) -> set[AclBinding]:
    """Return the ACLs that the broker describes."""
    response = client.ask(description(acl_filter or AclFilter()), version)
    assert response.error_code == 0, response.error_message
    return {
        AclBinding(
            resource.resource_type,
            resource.resource_name,
            resource.pattern_type,
            row.principal,
            row.host,
            row.operation,
            row.permission_type,
        )
        for resource in response.resources
        for row in resource.acls
    }
