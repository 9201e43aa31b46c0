"""The callbacks of a store."""

from __future__ import annotations

from kqueue.metadata.watchers import Watchers


def test_each_watch_is_called_until_it_is_stopped() -> None:
    watchers = Watchers()
    calls: list[str] = []

    def first() -> None:
        calls.append("first")
        stop_second()  # a callback may stop watches

    stop_first = watchers.add(first)
    stop_second = watchers.add(lambda: calls.append("second"))
    stop_third = watchers.add(lambda: calls.append("third"))
    watchers.notify()
    watchers.notify()
    assert calls == ["first", "second", "third", "first", "third"]
    stop_third()
    stop_third()
    assert len(watchers) == 1
    stop_first()
    watchers.notify()
    assert len(calls) == 5
    watchers.add(first)
    watchers.clear()
    watchers.notify()
    assert len(calls) == 5
