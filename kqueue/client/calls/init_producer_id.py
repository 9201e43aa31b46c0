"""InitProducerId: the id of an idempotent producer."""

from __future__ import annotations

from typing import NamedTuple

from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

NEVER = 2**31 - 1


class ProducerIdAndEpoch(NamedTuple):
    """The id and epoch that every batch of an idempotent producer carries beside its sequence."""

    id: int
    epoch: int


class InitProducerId:
    """InitProducerId without a transactional id."""

    api = BY_MODULE["init_producer_id"]
    versions = (0, 5)
    repeatable = True  # an id more or less

    def request(self, version: int) -> InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=NEVER)

    def result(self, version: int, response: InitProducerIdResponse, broker: str) -> ProducerIdAndEpoch:
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
