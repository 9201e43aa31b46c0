from __future__ import annotations

import logging

import pytest
from starlette.exceptions import HTTPException
from starlette.requests import Request

from kqueue import Broker
from kqueue.client import ClientOptions
from kqueue.client.errors import BrokerUnreachable
from kqueue.console.app import create_app
from kqueue.console.options import ConsoleOptions
from kqueue.console.page import REFRESH_HEADER, Page, form_error, local_path
from kqueue.tests.console.browser import Browser


def page_of(**options: object) -> Page:
    app = create_app(ConsoleOptions(client=ClientOptions(bootstrap="127.0.0.1:1"), **options))
    request = Request({"type": "http", "app": app, "headers": [], "client": ("192.0.2.7", 1), "path": "/"})
    request.state.session = app.state.console.sessions.begin(app.state.console.options.client)
    return Page(request)


@pytest.mark.parametrize(
    ("path", "kept"),
    [
        ("/topics?page=2", "/topics?page=2"),
        ("//evil.example", "/"),
        ("/\\evil.example", "/"),
        ("https://evil.example", "/"),
        ("javascript:alert(1)", "/"),
        ("/a\r\nset-cookie: b", "/"),
        ("", "/"),
    ],
)
def test_only_a_path_of_the_console_is_redirected_to(path: str, kept: str) -> None:
    assert local_path(path) == kept


def test_a_change_that_succeeds_is_one_audit_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"), page_of(allow_changes=True).change("create topic", "a"):
        pass
    assert caplog.messages == ['action="create topic" resource="a" user="(console)" address="192.0.2.7" outcome="done"']


def test_a_change_that_fails_is_one_audit_line_with_the_reason(caplog: pytest.LogCaptureFixture) -> None:
    page = page_of(allow_changes=True)
    caplog.set_level(logging.INFO, "kqueue.console.audit")
    with pytest.raises(ValueError, match="no"), page.change("create topic", 'a"\nb'):
        raise ValueError("no")
    [line] = caplog.messages
    assert line.endswith('outcome="failed: no"')
    assert "\n" not in line


def test_a_change_of_a_console_that_only_shows_is_refused_and_audited(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kqueue.console.audit")
    with pytest.raises(HTTPException), page_of().change("create topic", "a"):
        pytest.fail("reached")
    assert "read-only" in caplog.text


def test_an_error_that_the_user_cannot_mend_leaves_the_form() -> None:
    assert form_error(ValueError("no")).sentence == "no"
    with pytest.raises(BrokerUnreachable):
        form_error(BrokerUnreachable("no"))
    with pytest.raises(KeyError):
        form_error(KeyError("no"))


def test_a_message_is_shown_once_and_not_to_the_refresh_of_a_region(broker: Broker) -> None:
    app = create_app(ConsoleOptions(client=ClientOptions(bootstrap=broker.bootstrap)))
    with Browser(app, base_url="http://localhost") as browser:
        browser.get("/")
        [session] = app.state.console.sessions._sessions.values()
        session.flash("Deleted <b>orders</b>.")
        assert "Deleted" not in browser.get("/", headers={REFRESH_HEADER: "1"}).text
        assert "Deleted &lt;b&gt;orders&lt;/b&gt;." in browser.get("/").text
        assert "Deleted" not in browser.get("/").text


def test_a_field_that_is_too_long_or_no_text_is_refused() -> None:
    page = page_of()
    page.request.state.form = {"name": " a " * 100, "file": object()}
    assert page.field("missing", "b") == "b"
    with pytest.raises(HTTPException, match="up to 10 characters"):
        page.field("name", characters_max=10)
    with pytest.raises(HTTPException, match="takes text"):
        page.field("file")
