from __future__ import annotations

import pytest

from kqueue.base.errors import RequestTimedOut
from kqueue.base.tickets import Ticket


def test_a_ticket_holds_its_value_once() -> None:
    ticket: Ticket[int] = Ticket()
    assert not ticket.done
    ticket.resolve(3)
    assert ticket.done
    assert ticket.result() == 3
    with pytest.raises(AssertionError, match="settled once"):
        ticket.resolve(4)


def test_a_failed_ticket_raises_its_error() -> None:
    ticket: Ticket[int] = Ticket()
    ticket.fail(RequestTimedOut("too late"))
    with pytest.raises(RequestTimedOut, match="too late"):
        ticket.result()
    with pytest.raises(AssertionError, match="settled once"):
        ticket.fail(RequestTimedOut("again"))
