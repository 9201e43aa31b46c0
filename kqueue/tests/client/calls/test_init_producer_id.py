from __future__ import annotations

import pytest

from kqueue.client import ProducerIdAndEpoch
from kqueue.client.calls.init_producer_id import InitProducerId
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.init_producer_id import InitProducerIdResponse


def test_the_id_or_the_error() -> None:
    response = InitProducerIdResponse(producer_id=7, producer_epoch=2)
    assert InitProducerId().result(5, response, "b:1") == ProducerIdAndEpoch(7, 2)
    assert InitProducerId().request(5).transactional_id is None
    with pytest.raises(BrokerRefused, match="InitProducerId: COORDINATOR_LOAD_IN_PROGRESS"):
        InitProducerId().result(5, InitProducerIdResponse(error_code=14), "b:1")
