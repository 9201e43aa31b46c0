"""Waiting for tickets."""

from __future__ import annotations

import pytest

from kqueue.api.call import error_of, wait_for, wait_for_all
from kqueue.base.errors import InvalidTopic, RequestTimedOut
from kqueue.base.tickets import Ticket
from kqueue.broker.waiting import Wait


def test_a_settled_ticket_is_answered_at_once() -> None:
    ticket: Ticket[int] = Ticket()
    ticket.resolve(7)
    assert wait_for(ticket, lambda done: done.result() + 1) == 8


def test_a_failed_ticket_raises_where_its_result_is_asked() -> None:
    ticket: Ticket[int] = Ticket()
    ticket.fail(InvalidTopic("no"))
    with pytest.raises(InvalidTopic):
        wait_for(ticket, lambda done: done.result())


def test_an_open_ticket_is_waited_for_by_its_own_key() -> None:
    ticket: Ticket[int] = Ticket()
    wait = wait_for(ticket, lambda done: done.result(), 50.0)
    assert isinstance(wait, Wait)
    assert (wait.keys, wait.deadline_ms) == ((ticket,), 50.0)
    assert wait.retry(False) is None
    ticket.resolve(3)
    assert wait.retry(False) == 3


def test_at_the_deadline_the_answer_is_made_with_what_there_is() -> None:
    one: Ticket[int] = Ticket()
    two: Ticket[int] = Ticket()
    one.resolve(1)
    wait = wait_for_all((one, two), lambda: [ticket.done for ticket in (one, two)], 50.0)
    assert isinstance(wait, Wait)
    assert wait.retry(False) is None
    assert wait.retry(True) == [True, False]


def test_what_went_wrong_is_told_at_each_stage() -> None:
    refused = InvalidTopic("no")
    ticket: Ticket[int] = Ticket()
    late = error_of(ticket, "too late")
    assert isinstance(late, RequestTimedOut)
    assert str(late) == "too late"
    ticket.fail(refused)
    assert error_of(ticket, "too late") is refused
    assert error_of(refused, "too late") is refused
    assert error_of(None, "too late") is None
