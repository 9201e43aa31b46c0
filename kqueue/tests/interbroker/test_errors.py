from __future__ import annotations

from kqueue.base.errors import KqueueError
from kqueue.interbroker.errors import PeerError, PeerTimedOut, PeerUnavailable


def test_errors_say_whether_the_other_broker_may_have_got_the_request() -> None:
    assert not PeerUnavailable("broker 2 is fenced").sent
    late = PeerTimedOut("broker 2 did not answer", sent=True)
    assert late.sent
    assert isinstance(late, PeerError)
    assert isinstance(late, KqueueError)
