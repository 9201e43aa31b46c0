from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.config_resources import ConfigChange, ConfigOperation
from kqueue.base.errors import InvalidConfig, InvalidRequest, SettingError
from kqueue.base.settings import ANY, Scope, Setting, SettingType
from kqueue.broker.config_changes import (
    RESOURCE_BYTES_MAX,
    VALUE_BYTES_MAX,
    changed_values,
    check_names,
    check_size,
    replaced_values,
)
from kqueue.tests.tables import for_each

SET, DELETE, APPEND, SUBTRACT = ConfigOperation
ROWS = {
    "list": Setting("list", SettingType.LIST, ["d"], ANY, Scope.TOPIC, "A list."),
    "number": Setting("number", SettingType.INT, 1, ANY, Scope.TOPIC, "A number."),
}


def find(name: str) -> Setting:
    if name not in ROWS:
        raise SettingError(f"no setting {name}")
    return ROWS[name]


def change(own: dict[str, Any], *changes: ConfigChange) -> dict[str, Any]:
    return changed_values(find, own, lambda row: row.default, changes)


@for_each(
    "own, operation, value, new",
    [
        ({}, SET, "a,b", "a,b"),
        ({"list": ["a"]}, SET, "", ""),
        ({}, APPEND, "a", ["d", "a"]),
        ({"list": ["a"]}, APPEND, "b, a,b", ["a", "b"]),
        ({"list": []}, APPEND, "a", ["a"]),
        ({}, SUBTRACT, "d", []),
        ({"list": ["a", "b", "a"]}, SUBTRACT, "a,x", ["b"]),
        ({"list": ["a"]}, APPEND, "", ["a"]),
    ],
)
def test_operations_on_a_list(own: dict[str, Any], operation: ConfigOperation, value: str, new: Any) -> None:
    before = {name: list(items) for name, items in own.items()}
    assert change(own, ConfigChange(operation, "list", value)) == {"list": new}
    assert own == before


def test_delete_unsets_also_what_is_unknown() -> None:
    assert change({"number": 1, "gone": "x"}, ConfigChange(DELETE, "gone"), ConfigChange(DELETE, "other", "5")) == {
        "number": 1
    }


@for_each(
    "changes, error, words",
    [
        ([ConfigChange(SET, "number", "1"), ConfigChange(DELETE, "number")], InvalidRequest, "twice"),
        ([ConfigChange(SET, "number", None)], InvalidRequest, "expects a value, found null"),
        ([ConfigChange(APPEND, "list", None)], InvalidRequest, "expects a value, found null"),
        ([ConfigChange(APPEND, "number", "1")], InvalidConfig, "number has one value \\(INT\\): use SET"),
        ([ConfigChange(SUBTRACT, "nope", "1")], InvalidConfig, "no setting nope"),
    ],
)
def test_wrong_changes_are_refused(changes: list[ConfigChange], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        change({"number": 5}, *changes)


def test_replacing_takes_each_setting_once_with_a_value() -> None:
    assert replaced_values([("a", "1"), ("b", "")]) == {"a": "1", "b": ""}
    with pytest.raises(InvalidRequest, match="'a' is twice"):
        replaced_values([("a", "1"), ("a", "1")])
    with pytest.raises(InvalidRequest, match="b: expected a value, found null"):
        replaced_values([("a", "1"), ("b", None)])
    with pytest.raises(InvalidRequest):
        check_names(["", ""])


def test_the_values_of_a_resource_are_bounded() -> None:
    full = {f"list-{number}": "x" * (RESOURCE_BYTES_MAX // 8 - 6) for number in range(8)}
    check_size("topic a", full)
    with pytest.raises(InvalidConfig, match="topic a: settings of one resource"):
        check_size("topic a", full | {"list-7": "x" * (RESOURCE_BYTES_MAX // 8 - 5)})


@for_each("value", ["x" * (VALUE_BYTES_MAX + 1), "é" * (VALUE_BYTES_MAX // 2 + 1), ["xx"] * 10_923])
def test_a_value_that_no_response_can_carry_is_refused(value: object) -> None:
    with pytest.raises(InvalidConfig, match=f"the value of list has [0-9]+ bytes, expected at most {VALUE_BYTES_MAX}"):
        check_size("topic a", {"list": value})
    check_size("topic a", {"list": value[:-1]})  # type: ignore[index]


items = st.lists(st.sampled_from("abcd"), max_size=4)


@given(
    st.none() | st.lists(st.sampled_from("abcd"), unique=True),
    st.lists(st.tuples(st.sampled_from(ConfigOperation), items)),
)
def test_lists_follow_a_model(own: list[str] | None, steps: list[tuple[ConfigOperation, list[str]]]) -> None:
    values: dict[str, Any] = {} if own is None else {"list": own}
    model: list[str] | None = own
    for operation, named in steps:
        values = change(values, ConfigChange(operation, "list", None if operation is DELETE else ",".join(named)))
        if isinstance(values.get("list"), str):  # as the check of values does next
            values["list"] = ROWS["list"].parse(values["list"])
        current = ["d"] if model is None else model
        if operation is SET:
            model = named
        elif operation is DELETE:
            model = None
        elif operation is APPEND:
            model = list(current)
            for item in named:
                if item not in model:
                    model.append(item)
        else:
            model = [item for item in current if item not in named]
        assert values.get("list") == model
