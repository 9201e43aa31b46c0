from __future__ import annotations

import base64

import pytest

from kqueue.schema_registry.access import basic_authentication
from kqueue.schema_registry.access.basic_authentication import LOGIN_KEPT_S, BasicAuthenticator
from kqueue.schema_registry.errors import LOGIN_UNCHECKED, RegistryError
from kqueue.schema_registry.rest.contract import Credentials
from kqueue.web.failure_limit import FAILURES_MAX


class Check:
    """Knows ann, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0
        self.error: RegistryError | None = None

    def refusal(self, user: str, password: str) -> str | None:
        self.asked += 1
        if self.error is not None:
            raise self.error
        return None if (user, password) == ("ann", "secret:with colon") else "Wrong."


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def header(user: str = "ann", password: str = "secret:with colon") -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def credentials(authorization: str | None, address: str = "192.0.2.1") -> Credentials:
    return Credentials(authorization, (address, 1234), {})


def code(authenticator: BasicAuthenticator, given: Credentials) -> int:
    with pytest.raises(RegistryError) as raised:
        authenticator.authenticate(given)
    return raised.value.code


def test_a_user_with_its_password_is_let_in_and_checked_once() -> None:
    check, clock = Check(), Clock()
    authenticator = BasicAuthenticator(check, clock)
    assert [authenticator.authenticate(credentials(header())) for _ in range(3)] == ["ann"] * 3
    assert check.asked == 1
    clock.now_s = LOGIN_KEPT_S
    authenticator.authenticate(credentials(header()))
    assert check.asked == 2


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Basic",
        "Bearer abc",
        "Basic !!!",
        "Basic " + base64.b64encode(b"no colon").decode(),
        "Basic " + base64.b64encode(b":no user").decode(),
        "Basic " + base64.b64encode(b"\xff\xfe:x").decode(),
        "Basic \u00e4",
        "Basic " + "A" * 10_000,
    ],
)
def test_a_header_of_another_form_is_refused_without_a_check(authorization: str | None) -> None:
    check = Check()
    assert code(BasicAuthenticator(check), credentials(authorization)) == 401
    assert check.asked == 0


def test_after_many_failures_an_address_has_to_wait() -> None:
    check, clock = Check(), Clock()
    authenticator = BasicAuthenticator(check, clock)
    for _ in range(FAILURES_MAX):
        assert code(authenticator, credentials(header(password="guess"))) == 401
    assert code(authenticator, credentials(header())) == 429
    assert check.asked == FAILURES_MAX
    assert authenticator.authenticate(credentials(header(), "192.0.2.2")) == "ann"
    assert authenticator.authenticate(credentials(header())) == "ann", "a login that was accepted is not checked again"


def test_a_login_that_can_not_be_checked_does_not_count_as_failed() -> None:
    check = Check()
    authenticator = BasicAuthenticator(check)
    check.error = RegistryError(LOGIN_UNCHECKED, reason="down")
    for _ in range(FAILURES_MAX):
        assert code(authenticator, credentials(header())) == 503
    check.error = None
    assert authenticator.authenticate(credentials(header())) == "ann"


def test_only_some_logins_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(basic_authentication, "LOGINS_KEPT_MAX", 0)
    check = Check()
    authenticator = BasicAuthenticator(check)
    for _ in range(2):
        authenticator.authenticate(credentials(header()))
    assert check.asked == 2
