from __future__ import annotations

import pytest
from starlette.datastructures import Headers

from kqueue.console.access.forms import BODY_BYTES_MAX, FIELDS_MAX, is_same_origin
from kqueue.tests.console.browser import Browser


def test_a_form_without_the_token_is_refused(editor: Browser) -> None:
    editor.get("/")
    for data in ({}, {"csrf": ""}, {"csrf": "x"}, {"csrf": "é"}):
        response = editor.post("/theme", data={"theme": "dark", **data})
        assert response.status_code == 403
        assert "not from this session" in response.text
    assert 'data-theme="auto"' in editor.get("/").text


def test_the_token_of_another_session_is_refused(editor: Browser) -> None:
    token = editor.csrf()
    editor.cookies.clear()
    assert editor.post("/theme", data={"csrf": token, "theme": "dark"}).status_code == 403


@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}]
)
def test_a_form_of_another_site_is_refused_with_the_right_token_too(editor: Browser, headers: dict[str, str]) -> None:
    assert editor.submit("/theme", {"theme": "dark"}, headers=headers).status_code == 403


def test_a_console_that_only_shows_refuses_every_other_form(browser: Browser) -> None:
    response = browser.submit("/create-topic", {"name": "a"})
    assert response.status_code == 403
    assert "--allow-changes" in response.text


def test_a_form_that_is_too_large_is_refused(editor: Browser) -> None:
    response = editor.submit("/theme", {"theme": "x" * BODY_BYTES_MAX})
    assert response.status_code == 413
    assert "up to 2,097,152 bytes" in response.text


def test_a_form_with_too_many_fields_is_refused(editor: Browser) -> None:
    csrf = editor.csrf()
    fields = {str(number): "1" for number in range(FIELDS_MAX + 1)}
    response = editor.post("/theme", data={"csrf": csrf, **fields})
    assert response.status_code == 400


def test_a_body_that_is_no_form_is_refused(editor: Browser) -> None:
    csrf = editor.csrf()
    for kind in ("multipart/form-data", "multipart/form-data; boundary=x", "text/plain"):
        response = editor.post("/theme", content=f"csrf={csrf}", headers={"content-type": kind})
        assert response.status_code in (400, 403), kind


def test_a_page_of_this_host_is_known_by_its_origin() -> None:
    def same(**headers: str) -> bool:
        return is_same_origin(Headers({name.replace("_", "-"): value for name, value in headers.items()}))

    assert same(host="a:1")
    assert same(host="a:1", origin="http://A:1")
    assert same(host="a:1", sec_fetch_site="same-origin", origin="http://a:1")
    assert not same(host="a:1", origin="http://a:2")
    assert not same(host="a:1", sec_fetch_site="same-site")
