from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from kqueue import Broker
from kqueue.client import Client, ClientOptions
from kqueue.client.errors import BrokerRefused
from kqueue.schema_registry.access.broker_acls import BrokerAcls, for_any_host
from kqueue.security.acl_text import parse_acls
from kqueue.testing import faults
from kqueue.tests.waits import eventually

READ = "User:ann allow read topic:orders"
ALL = "User:* allow all cluster"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(acls=[READ, ALL]) as broker:
        yield broker


def test_acls_are_read_at_the_start_and_again_when_they_change(broker: Broker) -> None:
    seen: list[list[str]] = []
    acls = BrokerAcls(
        ClientOptions(bootstrap=broker.bootstrap), lambda now: seen.append(sorted(map(str, now))), refresh_s=0.01
    )
    acls.start()
    assert seen == [sorted([READ, ALL])]
    with Client(broker.bootstrap) as client:
        client.cluster.create_acls(parse_acls(["User:bob allow read topic:orders"]))
    eventually(lambda: len(seen) == 2, "the change")
    assert "User:bob allow read topic:orders" in seen[1]
    acls.close()


def test_old_acls_hold_while_they_can_not_be_read(broker: Broker, caplog: pytest.LogCaptureFixture) -> None:
    seen = []
    acls = BrokerAcls(ClientOptions(bootstrap=broker.bootstrap), seen.append, refresh_s=0.01)
    acls.start()
    with faults(broker) as faulty, caplog.at_level(logging.WARNING, "kqueue.schema_registry"):
        fault = faulty.fail("DescribeAcls", "CLUSTER_AUTHORIZATION_FAILED", times=None)
        eventually(lambda: fault.count > 2, "three failures")
    acls.close()
    assert caplog.text.count("the old ones hold") == 1
    assert len(seen) == 1


def test_a_broker_without_acls_is_an_error_at_the_start() -> None:
    with Broker() as broker:
        acls = BrokerAcls(ClientOptions(bootstrap=broker.bootstrap), print)
        with pytest.raises(BrokerRefused, match="SECURITY_DISABLED"):
            acls.start()
        acls.close()


def test_a_denial_for_a_host_holds_for_all_and_a_permission_for_a_host_for_none() -> None:
    given = parse_acls(
        [
            "User:ann allow read topic:a from 192.0.2.1",
            "User:ann deny read topic:b from 192.0.2.1",
            "User:ann allow read topic:c",
        ]
    )
    assert list(map(str, for_any_host(given))) == ["User:ann deny read topic:b", "User:ann allow read topic:c"]
