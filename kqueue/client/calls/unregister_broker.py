"""UnregisterBroker: remove a broker that is gone for good."""

from __future__ import annotations

from kqueue.client.retry_policy import response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse


class UnregisterBroker:
    """UnregisterBroker. Not repeatable: after a lost response the broker may be unknown already."""

    api = BY_MODULE["unregister_broker"]
    versions = (0, 0)
    repeatable = False

    def __init__(self, node_id: int) -> None:
        self.node_id = node_id

    def request(self, version: int) -> UnregisterBrokerRequest:
        return UnregisterBrokerRequest(broker_id=self.node_id)

    def result(self, version: int, response: UnregisterBrokerResponse, broker: str) -> None:
        if response.error_code:
            raise response_error(
                response.error_code,
                self.api.name,
                broker,
                message=response.error_message,
                about=f"broker {self.node_id}",
            )
