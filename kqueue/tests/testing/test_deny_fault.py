"""The fault `deny`: what is allowed is denied, for as long as it lasts, over restarts too."""

from __future__ import annotations

import pytest

import kqueue
from kqueue.base.errors import InvalidRequest
from kqueue.client import Client
from kqueue.client.errors import BrokerRefused
from kqueue.testing import faults
from kqueue.wire.error_codes import ErrorCode

ADMIN = "User:ANONYMOUS allow all cluster"
DENIED = "User:* deny describe cluster"


def is_denied(client: Client) -> bool:
    try:
        client.cluster.describe_acls()
    except BrokerRefused as error:
        return error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return False


def test_deny_fault_lasts_beyond_a_restart() -> None:
    with kqueue.Broker(acls=[ADMIN]) as broker, Client(broker.bootstrap) as client:
        with faults(broker) as made:
            fault = made.deny(DENIED)
            assert is_denied(client)
            broker.restart()
            assert is_denied(client)
            assert [one.fault for one in made.fired] == [DENIED] * fault.count
            fault.cancel()
            assert not is_denied(client)
            made.deny(DENIED)
            assert is_denied(client)
        assert not is_denied(client)


def test_deny_fault_counts_its_decisions() -> None:
    with kqueue.Broker(acls=[ADMIN]) as broker, Client(broker.bootstrap) as client, faults(broker) as made:
        made.script([{"deny": DENIED, "times": 2, "after": 1}])
        assert [is_denied(client) for _ in range(4)] == [False, True, True, False]


def test_deny_fault_denies_only_its_acl() -> None:
    with kqueue.Broker(acls=[ADMIN]) as broker, Client(broker.bootstrap) as client, faults(broker) as made:
        for line in ("User:ann deny all cluster", "User:* deny alter cluster", "User:* deny describe topic:*"):
            made.deny(line)
        assert not is_denied(client)
        assert made.fired == []


def test_mistakes_are_told() -> None:
    with kqueue.Broker() as broker, faults(broker) as made:
        with pytest.raises(RuntimeError, match="the broker has no authorizer"):
            made.deny(DENIED)
        with pytest.raises(ValueError, match="expected an ACL that denies"):
            made.deny(ADMIN)
        with pytest.raises(InvalidRequest, match="expected an ACL as"):
            made.deny("write")
