from __future__ import annotations

from kqueue.cli.top.picture import Picture
from kqueue.tests.cli.top.pictures import picture


def test_series_are_those_of_the_history() -> None:
    one = picture()
    assert one.topic_series("orders") == [None, 100.0, 100.0]
    assert one.group_series("mailer") == [50, 40, 30]
    assert one.topic_series("none") == [None] * 3


def test_a_picture_before_the_first_reading_has_nothing() -> None:
    empty = Picture("b:1")
    assert (empty.snapshot, empty.topics, empty.requests, empty.topic_series("t")) == (None, {}, None, [])
