from __future__ import annotations

import pytest

from kqueue.api import handler_table
from kqueue.api.errors import CodedError
from kqueue.api.request_context import RequestContext
from kqueue.base.errors import KqueueError
from kqueue.tests.api.cluster_client import MembersClient
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.unregister_broker import UnregisterBrokerRequest


@for_each(
    "broker_id, code",
    [
        (2, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (-1, ErrorCode.BROKER_ID_NOT_REGISTERED),
        (7, ErrorCode.POLICY_VIOLATION),
    ],
)
def test_no_broker_can_be_removed(broker_id: int, code: ErrorCode) -> None:
    client = SimulatedClient({"node.id": 7})
    client.sim.topic("a")
    row, request = handler_table.lookup(64, 0), UnregisterBrokerRequest(broker_id=broker_id)
    with pytest.raises(KqueueError) as error:
        row.handle(request, RequestContext(client.sim.broker, 0))
    response = row.error_response(request, 0, error.value)
    assert response.error_code == code
    assert str(broker_id) in response.error_message
    assert client.sim.broker.topics.partition("a", 0).leader == 7


def test_a_fenced_broker_of_a_cluster_is_removed() -> None:
    members = Members(3)
    members.register(3, epoch=2, fenced=True)
    members.settle()
    client = MembersClient(members, 1)
    assert client.ask(UnregisterBrokerRequest(broker_id=3), 0).error_code == ErrorCode.NONE
    assert [broker.id for broker in members[2].broker.metadata.cluster.all()] == [1, 2]
    with pytest.raises(CodedError, match="broker 3 is not registered"):
        client.ask(UnregisterBrokerRequest(broker_id=3), 0)
