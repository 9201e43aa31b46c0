from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from kqueue.groups.log.schemas import OffsetCommitValue
from kqueue.log_tools.decoders.struct_json import camel_case, json_text, struct_to_json


def test_names() -> None:
    assert [camel_case(name) for name in ("epoch", "group_id", "kraft_version", "kraft_version_feature")] == [
        "epoch",
        "groupId",
        "kRaftVersion",
        "kRaftVersionFeature",
    ]


def test_text_is_as_jackson_writes_it() -> None:
    assert (
        json_text({"a": 'ä"\\\x1f\n\x7f', "b": [1, None, True]}) == '{"a":"ä\\"\\\\\\u001F\\n\x7f","b":[1,null,true]}'
    )


@given(
    st.recursive(
        st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5
    )
)
def test_text_is_json_in_one_line(values: object) -> None:
    text = json_text(values)
    assert json.loads(text) == values
    assert "\n" not in text


def test_a_version_shows_its_own_fields_and_tags_only_when_they_say_something() -> None:
    value = OffsetCommitValue(offset=1, leader_epoch=2, metadata="m", commit_timestamp=3, expire_timestamp=4)
    assert struct_to_json(value, 0) == {"offset": 1, "metadata": "m", "commitTimestamp": 3}
    assert struct_to_json(value, 1) == {"offset": 1, "metadata": "m", "commitTimestamp": 3, "expireTimestamp": 4}
    assert struct_to_json(value, 4) == {"offset": 1, "leaderEpoch": 2, "metadata": "m", "commitTimestamp": 3}
    value.topic_id = bytes(7) + b"\x01" + bytes(7) + b"\x02"
    assert struct_to_json(value, 4)["topicId"] == "AAAAAAAAAAEAAAAAAAAAAg"
