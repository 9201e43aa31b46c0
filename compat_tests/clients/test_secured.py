"""With ``--secure``: who is not known is not let in, and who has no ACL may do nothing."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from compat_tests.clients.adapters.contract import BrokerError
from compat_tests.clients.brokers import RunningBroker
from compat_tests.clients.conftest import ClientFactory
from compat_tests.clients.security import own_security
from compat_tests.waits import eventually
from kqueue.base.errors import KqueueError
from kqueue.client import Client
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclFilter

TOPIC_AUTHORIZATION_FAILED = 29


def test_plain_connections_get_no_answer(broker: RunningBroker) -> None:
    with pytest.raises(KqueueError), Client(broker.bootstrap, timeout_ms=1_000) as client:
        client.metadata()


def test_clients_may_do_what_acls_say(broker: RunningBroker, connect: ClientFactory, topic: Callable[..., str]) -> None:
    name = topic()
    [denial] = parse_acls([f"User:ann deny write topic:{name}"])
    with Client(broker.bootstrap, security=own_security()) as client:
        client.cluster.create_acls([denial])
        producer = connect.producer(broker.bootstrap)

        def is_refused() -> bool:
            try:
                producer.send(name, b"x", partition=0).result()
            except BrokerError as error:
                return error.code == TOPIC_AUTHORIZATION_FAILED
            return False

        eventually(is_refused, "the client is refused")
        client.cluster.delete_acls([AclFilter(name=name)])
