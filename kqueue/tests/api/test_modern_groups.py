"""The common steps of the handlers of the three modern types of groups."""

from __future__ import annotations

from typing import Any

from kqueue.tests.api.group_client import world
from kqueue.tests.api.harness import versions_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kqueue.wire.messages.share_group_describe import ShareGroupDescribeRequest
from kqueue.wire.messages.streams_group_describe import StreamsGroupDescribeRequest

CASES = [
    ("consumer_group_describe", ConsumerGroupDescribeRequest),
    ("share_group_describe", ShareGroupDescribeRequest),
    ("streams_group_describe", StreamsGroupDescribeRequest),
]


@for_each("name, request_class", CASES)
def test_a_group_that_is_named_twice_is_described_once(name: str, request_class: Any) -> None:
    response = world().ask(request_class(group_ids=["x", "x", "y"]), versions_of(name)[-1])
    assert [(one.group_id, one.error_code, one.error_message) for one in response.groups] == [
        ("x", ErrorCode.GROUP_ID_NOT_FOUND, "Group x not found."),
        ("y", ErrorCode.GROUP_ID_NOT_FOUND, "Group y not found."),
    ]
