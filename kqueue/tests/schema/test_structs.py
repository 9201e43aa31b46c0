from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from kqueue.schema import (
    array,
    decode,
    encode,
    field,
    int32,
    message,
    message_schema_of,
    record_data,
    schema_of,
    string,
    struct,
    uuid,
)
from kqueue.tests.tables import for_each


@struct
class Leader:
    node: int = field(int32, default=-1)
    epoch: int = field(int32, default=-1)


@struct
class Item:
    name: str = field(string)
    numbers: list[int] = field(array(int32))


@message(api_key=9, versions="0-3", flexible="2+")
class Order:
    """A message that has one field of most sorts."""

    text: str | None = field(string, "1+", nullable="2+", default=None, ignorable=True)
    items: list[Item] = field(array(Item))
    maybe: list[int] | None = field(array(int32), nullable="0+")
    never: list[int] | None = field(array(int32), nullable="0+", default=None)
    id: bytes = field(uuid)
    leader: Leader = field(Leader, "2+", tag=0)
    records: Any = field(record_data, nullable="0+")
    count: int = field(int32, default=7)

    @property
    def doubled(self) -> int:
        return self.count * 2


def test_an_object_is_built_by_keywords_over_the_defaults() -> None:
    order = Order(count=2, items=[Item(name="a")])
    assert (order.count, order.text, order.id, order.records, order.never, order.maybe) == (
        2,
        None,
        bytes(16),
        None,
        None,
        [],
    )
    assert order.items[0].numbers == []
    assert order.doubled == 4
    assert Order.__doc__


def test_each_object_has_lists_of_its_own() -> None:
    one, two = Order(), Order()
    one.items.append(Item())
    assert two.items == []


def test_nullable_list_keeps_none() -> None:
    assert Order(maybe=None).maybe is None


@for_each("wrong", [{"nothing": 1}, {"Count": 1}])
def test_unknown_keywords_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        Order(**wrong)
    with pytest.raises(TypeError):
        Order(1)


def test_struct_refuses_other_attributes() -> None:
    with pytest.raises(AttributeError):
        Order().total = 3  # type: ignore[attr-defined]


def test_objects_are_equal_by_value_and_class() -> None:
    assert Order(count=3) == Order(count=3)
    assert Order(count=3) != Order(count=4)
    assert Leader() != Item()
    assert Leader() != (-1, -1)
    with pytest.raises(TypeError):
        hash(Leader())


def test_an_object_prints_as_it_is_built() -> None:
    item = Item(name="a", numbers=[1])
    assert repr(item) == "Item(name='a', numbers=[1])"
    assert eval(repr(item)) == item


def test_the_default_struct_is_shared_equals_a_fresh_one_and_refuses_to_be_changed() -> None:
    assert Order().leader is Order().leader
    assert Order().leader == Leader()
    assert Leader() == Order().leader
    assert isinstance(Order().leader, Leader)
    assert repr(Order().leader) == "Leader(node=-1, epoch=-1)"
    with pytest.raises(AttributeError, match="give its owner a new Leader instead"):
        Order().leader.node = 5
    order = Order()
    order.leader = Leader(node=5)
    assert Order().leader.node == -1


def test_objects_can_be_copied_and_pickled() -> None:
    order = Order(text="x", items=[Item(numbers=[1, 2])])
    for again in (copy.copy(order), copy.deepcopy(order), pickle.loads(pickle.dumps(order))):
        assert again == order
        assert again.leader is order.leader
    assert copy.deepcopy(order).items[0] is not order.items[0]


def test_a_schema_says_which_fields_a_version_has_and_where() -> None:
    schema = message_schema_of(Order)
    assert [each.name for each in schema.fields_at(0)] == ["items", "maybe", "never", "id", "records", "count"]
    assert [each.name for each in schema.tagged_at(2)] == ["leader"]
    assert [each.name for each in schema.absent_at(0)] == ["text", "leader"]
    assert (schema.api_key, schema.versions, schema.unstable) == (9, (0, 3), False)
    assert repr(schema.fields[0]) == "<field text: string 1+>"


def test_tagged_fields_come_in_order_of_their_tags() -> None:
    @struct
    class Tagged:
        second: int = field(int32, tag=1)
        first: int = field(int32, tag=0)

    assert [each.name for each in schema_of(Tagged).tagged_at(0)] == ["first", "second"]


def test_a_field_may_stand_in_line_at_early_versions_and_be_tagged_later() -> None:
    @message(versions="0-1", flexible="1+")
    class Moved:
        number: int = field(int32, tag=0, tagged="1+", default=-1)

    assert encode(Moved(number=5), 0) == b"\0\0\0\5"
    assert encode(Moved(number=5), 1) == b"\1\0\4\0\0\0\5"
    assert encode(Moved(), 1) == b"\0"
    assert all(decode(Moved, version, encode(Moved(number=5), version)) == Moved(number=5) for version in (0, 1))


def test_class_without_a_decorator_is_refused() -> None:
    with pytest.raises(TypeError, match="lacks @struct or @message"):
        schema_of(int)
    with pytest.raises(TypeError, match="lacks @message"):
        message_schema_of(Item)


def test_a_struct_may_have_no_fields() -> None:
    @message(versions="0", flexible="0+")
    class Nothing:
        pass

    assert Nothing() == Nothing()
    assert decode(Nothing, 0, encode(Nothing(), 0)) == Nothing()
