from __future__ import annotations

import pytest

from kqueue.api.acl_messages import ACLS_MAX
from kqueue.base.errors import InvalidRequest
from kqueue.client.calls.acls import CreateAcls
from kqueue.security.acls import AclBinding
from kqueue.security.errors import ClusterAuthorizationFailed, SecurityDisabled
from kqueue.security.operations import CLUSTER_NAME, AclOperation, AclPermission, PatternType, ResourceType
from kqueue.security.principals import Principal
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.access_requests import Deciding
from kqueue.tests.api.acl_client import acl_client, create, described
from kqueue.tests.api.harness import SimulatedClient, versions_of
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.security.acl_strategies import acl
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


@for_each("version", versions_of("create_acls"))
def test_acls_are_created_once(version: int) -> None:
    client = acl_client()
    assert create(client, acl(), acl(name="*"), acl(), version=version) == [0, 0, 0]
    assert create(client, acl(), version=version) == [0]
    assert described(client) == {acl(), acl(name="*")}
    assert len(client.sim.store.read("/acls/")) == 2


def test_version_0_creates_literal_patterns() -> None:
    client = acl_client()
    create(client, acl(), version=0)
    assert described(client) == {acl()}


@for_each(
    "binding",
    [
        acl(resource_type=ResourceType.ANY),
        acl(resource_type=ResourceType.UNKNOWN),
        acl(resource_type=99),
        acl(pattern_type=PatternType.MATCH),
        acl(pattern_type=PatternType.ANY),
        acl(operation=AclOperation.ANY),
        acl(operation=99),
        acl(permission=AclPermission.ANY),
        acl(permission=99),
        acl(name=""),
        acl(resource_type=ResourceType.CLUSTER, name="c"),
        acl(principal="ann"),
    ],
)
def test_an_invalid_acl_is_refused_and_the_others_are_stored(binding: AclBinding) -> None:
    client = acl_client()
    assert create(client, binding, acl()) == [ErrorCode.INVALID_REQUEST, 0]
    assert described(client) == {acl()}


def test_without_an_authorizer_there_are_no_acls() -> None:
    with pytest.raises(SecurityDisabled):
        SimulatedClient().ask(CreateAcls([acl()]).request(3), 3)


def test_an_authorizer_that_decides_without_acls_has_none() -> None:
    client = acl_client()
    client.sim.broker.security.authorizer = Deciding(lambda action: True)
    with pytest.raises(SecurityDisabled, match="does not use ACLs"):
        client.ask(CreateAcls([acl()]).request(3), 3)


def test_too_many_are_refused() -> None:
    with pytest.raises(InvalidRequest, match=f"at most {ACLS_MAX} are taken"):
        acl_client().ask(CreateAcls([acl()] * (ACLS_MAX + 1)).request(3), 3)


def test_a_store_that_fails_is_the_error_of_each_valid_acl() -> None:
    store = FailingStore()
    client = acl_client(Simulation(store=store))
    store.failing = True
    codes = create(client, acl(), acl(principal="ann"), acl(name="*"))
    assert codes == [ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.INVALID_REQUEST, ErrorCode.KAFKA_STORAGE_ERROR]
    assert described(client) == set()


def test_alter_on_the_cluster_allows_creating_acls() -> None:
    client, ann = acl_client(), Principal("User", "ann")
    create(client, acl(resource_type=ResourceType.CLUSTER, name=CLUSTER_NAME))
    with pytest.raises(ClusterAuthorizationFailed):
        client.ask(CreateAcls([acl()]).request(3), 3, principal=ann)
    create(client, acl(resource_type=ResourceType.CLUSTER, name=CLUSTER_NAME, operation=AclOperation.ALTER))
    assert client.ask(CreateAcls([acl()]).request(3), 3, principal=ann).results[0].error_code == 0
