from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.fields import Fields

READERS: list[tuple[Callable[[Fields], object], list[Any], list[Any]]] = [
    (lambda fields: fields.number("x"), [0, 2**63 - 1], [-1, 2**63, 1.0, True, "1", None, [1]]),
    (lambda fields: fields.number("x", minimum=-1, maximum=5), [-1, 5], [-2, 6]),
    (lambda fields: fields.text("x"), ["", "ä"], [1, None, ["a"]]),
    (lambda fields: fields.hexadecimal("x"), ["00c0ffee"], ["c0ffee", "00C0FFEE", "00c0ffee\n", 3, None]),
    (lambda fields: fields.numbers("x", 2), [[0, 1]], [[0], [0, 1, 2], [0, -1], [0, "1"], "01", None]),
    (lambda fields: fields.epochs("x", maximum=1), [[], [[2**31 - 1, 2**63 - 1]]], [
        [[1, 2], [3, 4]], [[1]], ["ab"], [[-1, 2]], [[2**31, 2]], [[1, 2**63]], [[1, True]], {}, None,
    ]),
    (lambda fields: fields.items("x", str, maximum=1), [[], [5]], [[1, 2], {}, "a", None]),
]  # fmt: skip


@pytest.mark.parametrize(("read", "good", "bad"), READERS)
def test_fields_within_their_bounds_are_read_and_others_are_refused_by_name(
    read: Callable[[Fields], object], good: list[Any], bad: list[Any]
) -> None:
    for value in good:
        read(Fields({"x": value}, "a root"))
    for value in bad:
        with pytest.raises(TierCorrupt, match=r"a root: expected .* as 'x', found "):
            read(Fields({"x": value}, "a root"))


def test_missing_field_is_refused() -> None:
    with pytest.raises(TierCorrupt, match="a root: expected a string as 'x', found None"):
        Fields({}, "a root").text("x")


@pytest.mark.parametrize("values", [None, [], "{}", 3])
def test_anything_but_an_object_is_refused(values: object) -> None:
    with pytest.raises(TierCorrupt, match="a root: expected a JSON object, found "):
        Fields(values, "a root")


def test_long_value_is_shortened_in_the_message() -> None:
    with pytest.raises(TierCorrupt) as caught:
        Fields({"x": "y" * 100_000}, "a root").number("x")
    assert len(str(caught.value)) < 200
