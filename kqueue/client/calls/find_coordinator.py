"""FindCoordinator: the broker that stores a group's offsets."""

from __future__ import annotations

from kqueue.base.addresses import Address
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

GROUP = 0
VERSION_MANY = 4  # several keys at once


class FindCoordinator:
    """FindCoordinator for one group."""

    api = BY_MODULE["find_coordinator"]
    versions = (1, 6)
    repeatable = True

    def __init__(self, group: str) -> None:
        self.group = group

    def request(self, version: int) -> FindCoordinatorRequest:
        if version >= VERSION_MANY:
            return FindCoordinatorRequest(key_type=GROUP, coordinator_keys=[self.group])
        return FindCoordinatorRequest(key_type=GROUP, key=self.group)

    def result(self, version: int, response: FindCoordinatorResponse, broker: str) -> Address:
        coordinator: FindCoordinatorResponse | Coordinator = response
        if version >= VERSION_MANY:
            if [coordinator.key for coordinator in response.coordinators] != [self.group]:
                raise bad_answer(self.api.name, broker, f"is not about group {self.group!r}")
            coordinator = response.coordinators[0]
        if coordinator.error_code:
            raise response_error(
                coordinator.error_code,
                self.api.name,
                broker,
                message=coordinator.error_message,
                about=f"group {self.group!r}",
            )
        return Address(coordinator.host, coordinator.port)
