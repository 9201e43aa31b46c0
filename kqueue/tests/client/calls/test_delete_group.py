from __future__ import annotations

import pytest

from kqueue.client.calls.delete_group import DeleteGroup
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse


def test_a_deleted_group_has_no_error() -> None:
    call = DeleteGroup("g")
    assert call.request(2).groups_names == ["g"]
    call.result(2, DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g")]), "b:1")


def test_a_refusal_and_an_answer_about_another_group_are_raised() -> None:
    refused = DeleteGroupsResponse(results=[DeletableGroupResult(group_id="g", error_code=68)])
    with pytest.raises(BrokerRefused, match="DeleteGroups of group 'g': NON_EMPTY_GROUP"):
        DeleteGroup("g").result(2, refused, "b:1")
    with pytest.raises(BadAnswer, match="is not about group 'other'"):
        DeleteGroup("other").result(2, refused, "b:1")
