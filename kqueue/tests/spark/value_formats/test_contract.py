from __future__ import annotations

from kqueue.spark.value_formats.contract import ERROR_CHARACTERS_MAX, shortened


def test_messages_are_one_bounded_line() -> None:
    assert shortened(ValueError("a\n  b")) == "a b"
    assert len(shortened("x" * 10_000)) == ERROR_CHARACTERS_MAX
