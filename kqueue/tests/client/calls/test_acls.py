from __future__ import annotations

import pytest

import kqueue
from kqueue.client import Client
from kqueue.client.calls.acls import CreateAcls, DeleteAcls, DescribeAcls
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclFilter
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.create_acls import CreateAclsResponse
from kqueue.wire.messages.delete_acls import DeleteAclsFilterResult, DeleteAclsResponse
from kqueue.wire.messages.describe_acls import DescribeAclsResponse

READ = parse_acls(["User:ann allow read topic:orders"])[0]


def test_acls_are_created_found_and_deleted() -> None:
    write = READ._replace(operation=AclOperation.WRITE)
    with (
        kqueue.Broker(acls=["User:ANONYMOUS allow alter,describe cluster"]) as broker,
        Client(broker.bootstrap) as client,
    ):
        outcomes = client.cluster.create_acls([READ, READ._replace(principal="ann"), write])
        assert [one.code for one in outcomes] == [0, 42, 0]
        assert client.cluster.describe_acls(AclFilter(principal="User:ann")) == [READ, write]
        assert len(client.cluster.describe_acls()) == 4
        filters = [AclFilter(*READ), AclFilter(name="orders")]
        assert set(client.cluster.delete_acls(filters)) == {READ, write}
        assert len(client.cluster.describe_acls()) == 2
        with pytest.raises(BrokerRefused, match="INVALID_REQUEST"):
            client.cluster.delete_acls([AclFilter(operation=AclOperation.UNKNOWN)])


def test_a_client_that_may_not_see_acls_is_refused() -> None:
    with kqueue.Broker(acls=["User:ann allow all cluster"]) as broker, Client(broker.bootstrap) as client:
        with pytest.raises(BrokerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
            client.cluster.describe_acls()
        assert [one.code for one in client.cluster.create_acls([READ])] == [31]
        with pytest.raises(BrokerRefused, match="CLUSTER_AUTHORIZATION_FAILED"):
            client.cluster.delete_acls([AclFilter()])


def test_answers_that_are_none_are_errors() -> None:
    with pytest.raises(BadAnswer, match="0 of 1 ACLs"):
        CreateAcls([READ]).result(3, CreateAclsResponse(results=[]), "b:1")
    with pytest.raises(BrokerRefused, match="SECURITY_DISABLED"):
        DescribeAcls(AclFilter()).result(3, DescribeAclsResponse(error_code=54, error_message="no"), "b:1")
    refused = DeleteAclsResponse(filter_results=[DeleteAclsFilterResult(error_code=54, error_message="no")])
    with pytest.raises(BrokerRefused, match="SECURITY_DISABLED"):
        DeleteAcls([AclFilter()]).result(3, refused, "b:1")
