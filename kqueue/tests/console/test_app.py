from __future__ import annotations

import logging
import threading

import pytest
from starlette.routing import Route

from kqueue import Broker
from kqueue.base.errors import SettingError
from kqueue.client import ClientOptions
from kqueue.config.client_security import ClientSecurity
from kqueue.console.app import create_app, page_routes
from kqueue.console.options import ConsoleOptions
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import SaslLogin
from kqueue.tests.console.browser import Browser, Visit, words

NOBODY = "127.0.0.1:1"  # no server listens there


def test_a_page_that_does_not_exist_is_a_sentence_with_404(browser: Browser) -> None:
    response = browser.get("/no-such-page")
    assert response.status_code == 404
    assert "The console has no such page." in response.text


def test_a_broker_that_does_not_answer_is_a_sentence_with_503(visit: Visit) -> None:
    browser = visit(NOBODY, client={"timeout_ms": 300, "connect_timeout_ms": 100})
    response = browser.get("/")
    assert response.status_code == 503
    assert "No broker answers" in words(response.text)
    assert "Traceback" not in response.text
    assert browser.get("/static/console.css").status_code == 200


def test_an_error_of_the_console_itself_is_logged_and_not_shown(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    app = create_app(ConsoleOptions(client=ClientOptions(bootstrap=broker.bootstrap)))

    def fail(request: object) -> None:
        raise RuntimeError("a secret of the inside")

    app.router.routes.insert(0, Route("/fails", fail))
    with Browser(app, base_url="http://localhost") as browser, caplog.at_level(logging.ERROR, "kqueue.console"):
        response = browser.get("/fails")
    assert response.status_code == 500
    assert "secret" not in response.text
    assert "The console failed; its log has the details." in response.text
    assert "a secret of the inside" in caplog.text


def test_other_methods_are_refused(editor: Browser) -> None:
    assert editor.delete("/topics").status_code == 405
    assert editor.submit("/").status_code == 405
    assert "forms (POST) only" in editor.put("/topics").text


def test_every_page_is_read_by_a_function_without_asyncio() -> None:
    for route in page_routes():
        assert isinstance(route, Route)
        assert route.endpoint.__code__.co_flags & 0x80 == 0, f"{route.path}: a coroutine"


def test_files_are_served_with_their_types_and_kept_by_browsers(browser: Browser) -> None:
    for path, kind in {
        "/static/console.css": "text/css",
        "/static/console.js": "text/javascript",
        "/static/icon.svg": "image/svg+xml",
        "/favicon.ico": "image/svg+xml",
    }.items():
        response = browser.get(path)
        assert response.status_code == 200
        assert response.headers["content-type"].startswith(kind)
        assert "max-age" in response.headers["cache-control"]
    assert browser.get("/static/../app.py").status_code == 404
    assert browser.get("/static/%2e%2e/app.py").status_code == 404


def test_the_theme_is_chosen_without_a_script(browser: Browser) -> None:
    assert 'data-theme="auto"' in browser.get("/").text
    response = browser.submit("/theme", {"theme": "dark", "next": "/topics?page=1"})
    assert response.url.path == "/topics"
    assert 'data-theme="dark"' in response.text
    browser.submit("/theme", {"theme": '"><script>'})
    assert 'data-theme="dark"' in browser.get("/").text


def test_the_history_is_kept_while_the_application_runs(broker: Broker, visit: Visit) -> None:
    browser = visit(broker.bootstrap, history_interval_ms=3_600_000)
    sampler = browser.app.state.console.sampler  # type: ignore[attr-defined]
    assert sampler.wait_for_first(60)
    assert sampler.history.latest.problems == []
    browser.__exit__()
    assert "kqueue-console-history" not in [thread.name for thread in threading.enumerate()]


def test_without_credentials_of_its_own_a_console_with_logins_keeps_no_history() -> None:
    options = ConsoleOptions(client=ClientOptions(bootstrap=NOBODY), login="SCRAM-SHA-256", history_interval_ms=1_000)
    assert options.lacks_credentials
    assert create_app(options).state.console.sampler is None
    own = SaslLogin("SCRAM-SHA-256", "console", "secret")
    security = ClientSecurity(SecurityProtocol.SASL_PLAINTEXT, login=own)
    client = ClientOptions(bootstrap=NOBODY, security=security)
    options = ConsoleOptions(client=client, login="SCRAM-SHA-256", history_interval_ms=1_000)
    assert create_app(options).state.console.sampler is not None


def test_an_address_that_is_none_of_metrics_is_refused(broker: Broker) -> None:
    client = ClientOptions(bootstrap=broker.bootstrap)
    with pytest.raises(SettingError, match="--metrics: 'nowhere' is not an address of metrics"):
        create_app(ConsoleOptions(client=client, history_interval_ms=1_000, metrics=("nowhere",)))
