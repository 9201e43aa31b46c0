"""DeleteGroups of one group."""

from __future__ import annotations

from kqueue.client.retry_policy import bad_answer, response_error
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse


class DeleteGroup:
    """Not repeatable: after a lost response a new group may already have that name."""

    api = BY_MODULE["delete_groups"]
    versions = (0, 2)
    repeatable = False

    def __init__(self, name: str) -> None:
        self.name = name

    def request(self, version: int) -> DeleteGroupsRequest:
        return DeleteGroupsRequest(groups_names=[self.name])

    def result(self, version: int, response: DeleteGroupsResponse, broker: str) -> None:
        if [result.group_id for result in response.results] != [self.name]:
            raise bad_answer(self.api.name, broker, f"is not about group {self.name!r}")
        [result] = response.results
        if result.error_code:
            raise response_error(result.error_code, self.api.name, broker, about=f"group {self.name!r}")
