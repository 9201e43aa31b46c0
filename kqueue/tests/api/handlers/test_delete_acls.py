from __future__ import annotations

import pytest

from kqueue.api.handlers.delete_acls import FILTERS_MAX
from kqueue.base.errors import InvalidRequest
from kqueue.client.calls.acls import DeleteAcls
from kqueue.security.acls import AclFilter
from kqueue.security.errors import SecurityDisabled
from kqueue.security.operations import AclOperation, PatternType
from kqueue.testing.simulation import Simulation
from kqueue.tests.api.acl_client import acl_client, create, described
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.failing_store import FailingStore
from kqueue.tests.security.acl_strategies import acl
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode

BOB = acl(principal="User:bob")
PREFIXED = acl(name="ord", pattern_type=PatternType.PREFIXED)


@for_each("version", [1, 2, 3])
def test_acls_that_match_a_filter_are_deleted(version: int) -> None:
    client = acl_client()
    create(client, acl(), BOB, PREFIXED)
    filters = AclFilter(principal="User:bob"), AclFilter(name="ord"), AclFilter(name="no"), AclFilter(name="orders")
    response = client.ask(DeleteAcls(filters).request(version), version)
    assert [len(row.matching_acls) for row in response.filter_results] == [1, 1, 0, 2]
    assert response.filter_results[1].matching_acls[0].pattern_type == PatternType.PREFIXED
    assert described(client) == set()


def test_version_0_leaves_prefixed_patterns() -> None:
    client = acl_client()
    create(client, acl(), PREFIXED)
    client.ask(DeleteAcls([AclFilter(pattern_type=PatternType.LITERAL)]).request(0), 0)
    assert described(client) == {PREFIXED}


def test_an_unknown_filter_is_refused_alone() -> None:
    client = acl_client()
    create(client, acl(), BOB)
    response = client.ask(
        DeleteAcls([AclFilter(operation=AclOperation.UNKNOWN), AclFilter(principal="User:bob")]).request(3), 3
    )
    assert [row.error_code for row in response.filter_results] == [ErrorCode.INVALID_REQUEST, 0]
    assert described(client) == {acl()}


def test_a_store_that_fails_is_the_error_of_what_was_found() -> None:
    store = FailingStore()
    client = acl_client(Simulation(store=store))
    create(client, acl())
    store.failing = True
    response = client.ask(DeleteAcls([AclFilter(), AclFilter(name="no")]).request(3), 3)
    assert [row.error_code for row in response.filter_results] == [ErrorCode.KAFKA_STORAGE_ERROR, 0]
    assert described(client) == {acl()}


def test_too_many_filters_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        acl_client().ask(DeleteAcls([AclFilter()] * (FILTERS_MAX + 1)).request(3), 3)


def test_without_an_authorizer_there_are_no_acls() -> None:
    with pytest.raises(SecurityDisabled):
        SimulatedClient().ask(DeleteAcls([AclFilter()]).request(3), 3)
