from __future__ import annotations

import pytest

from kqueue.client.calls.unregister_broker import UnregisterBroker
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.unregister_broker import UnregisterBrokerResponse


def test_the_broker_is_named_and_a_refusal_is_raised() -> None:
    call = UnregisterBroker(4)
    assert call.request(0).broker_id == 4
    call.result(0, UnregisterBrokerResponse(), "b:1")
    with pytest.raises(BrokerRefused, match=r"broker 4: BROKER_ID_NOT_REGISTERED \(no such broker"):
        call.result(0, UnregisterBrokerResponse(error_code=102, error_message="no such broker"), "b:1")
