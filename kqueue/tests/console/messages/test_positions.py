from __future__ import annotations

import pytest

from kqueue.console.messages.positions import PARTITIONS_MAX, parse_position, position_text


def test_positions_are_texts_that_urls_take_as_they_are() -> None:
    offsets = {0: 120, 11: 2**62, 3: 0}
    text = position_text(offsets)
    assert text == f"0.120_3.0_11.{2**62}"
    assert parse_position(text) == offsets
    assert (position_text({}), parse_position("")) == ("", {})


@pytest.mark.parametrize(
    "text", ["x", "0", "0.", ".1", "0.1_", "-1.5", "0.1.2", "0.99999999999999999999", "4294967296.1", "0.٣", "0.1 "]
)
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="expected a position"):
        parse_position(text)


def test_positions_of_too_many_partitions_are_refused() -> None:
    with pytest.raises(ValueError, match="expected a position"):
        parse_position(position_text(dict.fromkeys(range(PARTITIONS_MAX + 1), 0)))
