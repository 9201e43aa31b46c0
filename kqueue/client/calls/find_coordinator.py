"""FindCoordinator: the broker that stores a group's offsets, or a transactional id's state."""

from __future__ import annotations

import enum

from kqueue.base.addresses import Address
from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest, FindCoordinatorResponse

VERSION_MANY = 4  # several keys at once


class CoordinatorKey(enum.IntEnum):
    """The kinds of key that a coordinator has."""

    GROUP = 0
    TRANSACTIONAL_ID = 1


class FindCoordinator:
    """FindCoordinator for one group or transactional id."""

    api = BY_MODULE["find_coordinator"]
    versions = (1, 6)
    repeatable = True

    def __init__(self, key: str, kind: CoordinatorKey = CoordinatorKey.GROUP) -> None:
        self.key = key
        self.kind = kind

    @property
    def _about(self) -> str:
        return f"{self.kind.name.lower().replace('_', ' ')} {self.key!r}"

    def request(self, version: int) -> FindCoordinatorRequest:
        if version >= VERSION_MANY:
            return FindCoordinatorRequest(key_type=self.kind, coordinator_keys=[self.key])
        return FindCoordinatorRequest(key_type=self.kind, key=self.key)

    def result(self, version: int, response: FindCoordinatorResponse, broker: str) -> Address:
        coordinator: FindCoordinatorResponse | Coordinator = response
        if version >= VERSION_MANY:
            if [coordinator.key for coordinator in response.coordinators] != [self.key]:
                raise bad_answer(self.api.name, broker, f"is not about {self._about}")
            coordinator = response.coordinators[0]
        if coordinator.error_code:
            raise response_error(
                coordinator.error_code,
                self.api.name,
                broker,
                message=coordinator.error_message,
                about=self._about,
            )
        return Address(coordinator.host, coordinator.port)
