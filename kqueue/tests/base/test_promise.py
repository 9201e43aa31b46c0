from __future__ import annotations

import pytest

from kqueue.base.errors import RequestTimedOut
from kqueue.base.promise import Promise


def test_a_ticket_holds_its_value_once() -> None:
    promise: Promise[int] = Promise()
    assert not promise.done
    promise.resolve(3)
    assert promise.done
    assert promise.result() == 3
    with pytest.raises(AssertionError, match="settled once"):
        promise.resolve(4)


def test_a_failed_ticket_raises_its_error() -> None:
    promise: Promise[int] = Promise()
    promise.fail(RequestTimedOut("too late"))
    with pytest.raises(RequestTimedOut, match="too late"):
        promise.result()
    with pytest.raises(AssertionError, match="settled once"):
        promise.fail(RequestTimedOut("again"))
