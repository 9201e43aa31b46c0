from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kqueue import Broker
from kqueue.console.access import login
from kqueue.tests.console.browser import Browser, Visit
from kqueue.web.failure_limit import FAILURES_MAX, FailureLimit

TOKEN = "a-token-of-the-console"


@pytest.fixture(autouse=True)
def _no_failures_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(login, "_failures", FailureLimit())


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    """A broker with the users ann, who may all, and bob, who may nothing."""
    with Broker(
        settings={
            "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
            "sasl.enabled.mechanisms": "PLAIN",
            "authorizer.class.name": "standard",
            "super.users": "User:ann",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                'org.apache.kafka.common.security.plain.PlainLoginModule required user_ann="a-secret" '
                'user_bob="b-secret";'
            ),
        }
    ) as broker:
        yield broker


def log_in(browser: Browser, **fields: str) -> Any:
    return browser.submit("/login", fields, on="/login")


def test_without_a_token_every_page_leads_to_the_login(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    response = browser.get("/topics?page=2", follow_redirects=False)
    assert (response.status_code, response.headers["location"]) == (303, "/login?next=%2Ftopics%3Fpage%3D2")
    assert "Sections" not in browser.get("/login").text
    assert browser.post("/theme", data={}, follow_redirects=False).headers["location"] == "/login"


def test_the_token_gets_in_and_leads_to_the_page_that_was_wanted(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    form = browser.get("/topics?page=2")
    csrf = re.search(r'name="csrf" value="([^"]*)"', form.text)[1]
    wanted = re.search(r'name="next" value="([^"]*)"', form.text)[1]
    response = browser.post("/login", data={"csrf": csrf, "next": wanted, "token": TOKEN})
    assert str(response.url) == "http://localhost/topics?page=2"
    assert "Topics" in response.text
    assert browser.submit("/logout").url.path == "/login"
    assert browser.get("/").url.path == "/login"


@pytest.mark.parametrize("token", ["", "wrong", TOKEN + "x", TOKEN[:-1], "é"])
def test_a_wrong_token_does_not(broker: Broker, visit: Visit, token: str) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    response = log_in(browser, token=token)
    assert response.status_code == 403
    assert browser.get("/").url.path == "/login"


def test_a_login_from_another_site_is_refused(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    csrf = browser.csrf("/login")
    browser.cookies.clear()
    response = browser.post("/login", data={"csrf": csrf, "token": TOKEN})
    assert response.status_code == 403


def test_another_site_is_not_redirected_to(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    response = browser.submit(
        "/login", {"token": TOKEN, "next": "//evil.example/"}, on="/login", follow_redirects=False
    )
    assert response.headers["location"] == "/"


def test_many_wrong_tokens_make_an_address_wait(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    for _ in range(FAILURES_MAX):
        assert log_in(browser, token="wrong").status_code == 403
    assert log_in(browser, token=TOKEN).status_code == 429


def test_users_see_what_the_brokers_acls_let_them_see(
    secured: Broker, visit: Visit, caplog: pytest.LogCaptureFixture
) -> None:
    ann, bob = (visit(secured.bootstrap, login="PLAIN") for _ in range(2))
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        assert "ann" in log_in(ann, user="ann", password="a-secret").text
        assert "bob" in log_in(bob, user="bob", password="b-secret").text
    assert "secret" not in caplog.text
    assert 'action="log in" resource="ann" user="ann"' in caplog.text
    assert "Moving partitions" in ann.text("/")
    assert "Moving partitions" not in bob.text("/")


def test_a_wrong_password_is_a_sentence_and_keeps_the_name(secured: Broker, visit: Visit) -> None:
    browser = visit(secured.bootstrap, login="PLAIN")
    response = log_in(browser, user="ann", password="wrong")
    assert response.status_code == 403
    assert "does not accept this login" in response.text
    assert 'value="ann"' in response.text
    assert log_in(browser, user="ann", password="").status_code == 400
    assert log_in(browser, user="x" * 1_000, password="y").status_code == 400


def test_a_broker_that_does_not_answer_is_no_wrong_password(visit: Visit) -> None:
    browser = visit("127.0.0.1:1", login="PLAIN", client={"timeout_ms": 200})
    assert log_in(browser, user="ann", password="x").status_code == 503


def test_a_session_is_new_after_the_login(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, token=TOKEN)
    browser.cookies.set("kqueue-8080", "chosen-by-another")
    log_in(browser, token=TOKEN)
    browser.cookies.clear()
    browser.cookies.set("kqueue-8080", "chosen-by-another")
    assert browser.get("/").url.path == "/login"


def test_a_console_without_a_login_has_no_form_for_it(browser: Browser) -> None:
    assert browser.get("/login").url.path == "/"
    assert "Log out" not in browser.get("/").text
