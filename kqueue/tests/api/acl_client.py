"""A simulated client of a broker with an authorizer, and requests about ACLs."""

from __future__ import annotations

from kqueue.client.calls.acls import CreateAcls, DescribeAcls
from kqueue.security.acls import AclBinding, AclFilter
from kqueue.security.authorizer import AuthorizerSetup
from kqueue.security.principals import ANONYMOUS
from kqueue.security.standard_authorizer import StandardAuthorizer
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.harness import SimulatedClient


def acl_client(sim: Simulation | None = None) -> SimulatedClient:
    """Return a super user of a broker that decides by ACLs."""
    client = SimulatedClient(sim=sim)
    security = client.sim.broker.security
    security.authorizer = StandardAuthorizer(AuthorizerSetup(security.acls.index, frozenset({ANONYMOUS})))
    return client


def create(client: SimulatedClient, *bindings: AclBinding, version: int = 3) -> list[int]:
    """Create ACLs; return the error codes."""
    return [row.error_code for row in client.ask(CreateAcls(bindings).request(version), version).results]


def described(client: SimulatedClient, acl_filter: AclFilter | None = None, version: int = 3) -> set[AclBinding]:
    """Return the ACLs that the broker describes."""
    call = DescribeAcls(acl_filter or AclFilter())
    return set(call.result(version, client.ask(call.request(version), version), "broker"))
