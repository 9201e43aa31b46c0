from __future__ import annotations

import pytest

from kqueue.schema_registry.election.failover_forwarder import FailoverForwarder
from kqueue.schema_registry.errors import FORWARDING_FAILED, RegistryError
from kqueue.schema_registry.forwarding import LeaderGone
from kqueue.schema_registry.rest.contract import ForwardedAnswer, ForwardedRequest

REQUEST = ForwardedRequest("POST", "/subjects/a/versions", {}, b"{}")
ANSWER = ForwardedAnswer(200, "application/json", b"{}")


class Member:
    """Names `next_url` once it was woken."""

    def __init__(self, next_url: str | None) -> None:
        self.next_url = next_url
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def next_leader_url(self, old_url: str, timeout_s: float) -> str | None:
        assert (old_url, self.woken) == ("http://old", 1)
        return self.next_url


class Forwards:
    """Answers at `http://new`."""

    def __init__(self, error: type[RegistryError] = LeaderGone) -> None:
        self.error = error
        self.urls: list[str] = []

    def forward(self, leader_url: str, request: ForwardedRequest) -> ForwardedAnswer:
        self.urls.append(leader_url)
        if leader_url != "http://new":
            raise self.error(FORWARDING_FAILED, leader=leader_url, reason="refused")
        return ANSWER


def test_a_leader_that_answers_gets_the_request_once() -> None:
    inner, member = Forwards(), Member(None)
    assert FailoverForwarder(inner, member).forward("http://new", REQUEST) == ANSWER
    assert (inner.urls, member.woken) == (["http://new"], 0)


def test_the_next_leader_gets_what_the_old_one_could_not_take() -> None:
    inner = Forwards()
    assert FailoverForwarder(inner, Member("http://new")).forward("http://old", REQUEST) == ANSWER
    assert inner.urls == ["http://old", "http://new"]


def test_without_a_next_leader_the_error_is_that_of_the_old_one() -> None:
    with pytest.raises(LeaderGone, match="http://old did not answer"):
        FailoverForwarder(Forwards(), Member(None)).forward("http://old", REQUEST)


def test_a_request_that_may_have_been_executed_is_not_sent_again() -> None:
    inner = Forwards(RegistryError)
    with pytest.raises(RegistryError, match="http://old did not answer"):
        FailoverForwarder(inner, Member("http://new")).forward("http://old", REQUEST)
    assert inner.urls == ["http://old"]
