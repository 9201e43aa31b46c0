"""ACLs in a cluster: whichever broker is asked stores them, and all decide by them."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import kqueue
from kqueue.client import Client
from kqueue.embedded.cluster_broker import ClusterBroker
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclFilter
from kqueue.security.authorizer import Action
from kqueue.security.authorizer import Client as Asking
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.security.principals import Principal
from kqueue.tests.waits import eventually

SETTINGS = {"authorizer.class.name": "standard", "super.users": "User:ANONYMOUS"}
READ = parse_acls(["User:ann allow read topic:orders"])[0]
READ_ORDERS = Action(AclOperation.READ, ResourceType.TOPIC, "orders")


@pytest.fixture(scope="module")
def cluster() -> Iterator[kqueue.Cluster]:
    with kqueue.Cluster(brokers=3, settings=SETTINGS) as cluster:
        yield cluster


def ann_may_read(broker: ClusterBroker) -> bool:
    authorizer = broker._server.broker.security.authorizer
    assert authorizer is not None
    return authorizer.authorize(Asking(Principal("User", "ann"), "127.0.0.1", "PLAINTEXT"), [READ_ORDERS])[0]


def test_all_brokers_decide_by_what_one_stored(cluster: kqueue.Cluster) -> None:
    with Client(cluster[0].bootstrap) as client:
        assert client.cluster.create_acls([READ])[0].code == 0
    eventually(lambda: all(map(ann_may_read, cluster.brokers)))
    cluster.restart(2)
    assert ann_may_read(cluster[2])
    with Client(cluster[1].bootstrap) as client:
        assert client.cluster.delete_acls([AclFilter()]) == [READ]
    eventually(lambda: not any(map(ann_may_read, cluster.brokers)))


def test_two_brokers_store_one_acl_at_once(cluster: kqueue.Cluster) -> None:
    entries = [READ._replace(name=str(number)) for number in range(200)]
    with Client(cluster[0].bootstrap) as one, Client(cluster[1].bootstrap) as other:
        with ThreadPoolExecutor(2) as threads:
            outcomes = list(threads.map(lambda client: client.cluster.create_acls(entries), (one, other)))
        assert {outcome.code for each in outcomes for outcome in each} == {0}
        assert len(one.cluster.describe_acls()) == len(other.cluster.describe_acls()) == len(entries)
        one.cluster.delete_acls([AclFilter()])
        eventually(lambda: other.cluster.describe_acls() == [])
