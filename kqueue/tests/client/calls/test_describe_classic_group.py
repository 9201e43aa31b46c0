from __future__ import annotations

import pytest

from kqueue.client.calls.describe_classic_group import ClassicMember, DescribeClassicGroup
from kqueue.client.errors import BadAnswer, BrokerRefused
from kqueue.wire.messages.describe_groups import DescribedGroup, DescribedGroupMember, DescribeGroupsResponse


def test_members_keep_their_assignment_as_bytes() -> None:
    member = DescribedGroupMember(member_id="m", client_id="c", client_host="/h", member_assignment=b"\0\0")
    group = DescribedGroup(
        group_id="g", group_state="Stable", protocol_type="consumer", protocol_data="range", members=[member]
    )
    call = DescribeClassicGroup("g")
    assert call.request(5).groups == ["g"]
    described = call.result(5, DescribeGroupsResponse(groups=[group]), "b:1")
    assert (described.state, described.protocol_type, described.protocol) == ("Stable", "consumer", "range")
    assert described.members == (ClassicMember("m", "c", "/h", None, b"\0\0"),)


def test_an_error_and_an_answer_about_another_group_are_raised() -> None:
    response = DescribeGroupsResponse(groups=[DescribedGroup(group_id="g", error_code=30)])
    with pytest.raises(BrokerRefused, match="DescribeGroups of group 'g': GROUP_AUTHORIZATION_FAILED"):
        DescribeClassicGroup("g").result(5, response, "b:1")
    with pytest.raises(BadAnswer, match="is not about group 'other'"):
        DescribeClassicGroup("other").result(5, response, "b:1")
