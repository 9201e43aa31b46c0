from __future__ import annotations

import re

from kqueue.console.access.headers import CONTENT_SECURITY_POLICY
from kqueue.tests.console.browser import Browser, Visit


def test_every_response_has_the_policy(browser: Browser) -> None:
    for path in ("/", "/topics", "/no-such-page", "/static/console.css", "/login"):
        headers = browser.get(path).headers
        assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
    assert browser.get("/").headers["cache-control"] == "no-store"
    refused = browser.get("/", headers={"host": "evil.example"})
    assert refused.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


def test_the_policy_allows_no_inline_script_or_style() -> None:
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert CONTENT_SECURITY_POLICY.startswith("default-src 'none'")


def test_pages_have_no_inline_script_or_style(browser: Browser) -> None:
    for path in ("/", "/topics", "/no-such-page"):
        page = browser.get(path).text
        assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\sstyle=|\son\w+=", page) == []


def test_tls_is_remembered_by_browsers(visit: Visit) -> None:
    browser = visit("127.0.0.1:1", tls_cert="cert.pem", tls_key="key.pem", token="0123456789abcdef")
    assert "max-age" in browser.get("/login").headers["strict-transport-security"]
