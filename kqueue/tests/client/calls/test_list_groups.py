from __future__ import annotations

import pytest

from kqueue.client import GroupListing
from kqueue.client.calls.list_groups import ListGroups
from kqueue.client.errors import BrokerRefused
from kqueue.wire.messages.list_groups import ListedGroup, ListGroupsResponse


def test_the_groups_or_the_error() -> None:
    group = ListedGroup(group_id="g", protocol_type="consumer", group_state="Stable", group_type="Classic")
    listed = ListGroups().result(5, ListGroupsResponse(groups=[group]), "b:1")
    assert listed == [GroupListing("g", "consumer", "Stable", "classic")]
    with pytest.raises(BrokerRefused, match="ListGroups: COORDINATOR_LOAD_IN_PROGRESS"):
        ListGroups().result(5, ListGroupsResponse(error_code=14), "b:1")
