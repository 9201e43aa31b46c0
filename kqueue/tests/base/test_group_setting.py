"""Numbers of groups within the broker's bounds."""

from __future__ import annotations

import pytest

from kqueue.base.errors import InvalidConfig
from kqueue.base.group_setting import BoundedGroupSetting, broker_names
from kqueue.tests.tables import for_each

SETTING = BoundedGroupSetting("share.delivery.count.limit", default=5, low=2, high=10)


@for_each("own, value", [({}, 5), ({SETTING.name: 7}, 7)])
def test_a_value_within_the_bounds_is_taken_as_it_is(own: dict[str, int], value: int) -> None:
    SETTING.check(own)
    assert SETTING.of(own) == value


@for_each(
    "value, words, moved",
    [
        (1, "must be greater than or equal to group.share.min.delivery.count.limit: ", 2),
        (11, "must be less than or equal to group.share.max.delivery.count.limit: ", 10),
    ],
)
def test_a_new_value_out_of_bounds_is_refused_and_an_old_one_is_moved(value: int, words: str, moved: int) -> None:
    own = {SETTING.name: value}
    with pytest.raises(InvalidConfig, match=words):
        SETTING.check(own)
    assert SETTING.of(own) == moved


def test_names_of_broker_settings_leave_num_out_of_the_bounds() -> None:
    assert broker_names("streams.num.standby.replicas") == (
        "group.streams.num.standby.replicas",
        "group.streams.min.standby.replicas",
        "group.streams.max.standby.replicas",
    )
