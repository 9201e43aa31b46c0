from __future__ import annotations

import logging

import pytest

from kqueue.client import Client
from kqueue.tests.console.browser import Browser, words


def test_a_user_gets_a_password_and_loses_it(editor: Browser, client: Client, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        response = editor.submit("/users/set", {"name": "a<b>nn", "password": "s3cret!", "mechanism": "both"})
    assert "User a<b>nn has a new password." in words(response.text)
    assert "s3cret!" not in caplog.text + response.text
    assert set(client.cluster.scram_users(["a<b>nn"])["a<b>nn"]) == {1, 2}
    assert "a<b>nn SCRAM-SHA-256 SCRAM-SHA-512 4,096, 4,096" in editor.text("/users")
    assert "Removed the passwords" in editor.submit("/users/remove", {"name": "a<b>nn"}).text
    assert "a<b>nn" not in editor.text("/users")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": "", "password": "x", "mechanism": "both"}, "must not be empty"),
        ({"name": "ann", "password": "", "mechanism": "both"}, "1 to 1,000 characters"),
        ({"name": "ann", "password": "x" * 1_001, "mechanism": "both"}, "1 to 1,000 characters"),
        ({"name": "ann", "password": "x", "mechanism": "MD5"}, "expected one of both"),
        ({"name": "a\x00b", "password": "x", "mechanism": "both"}, "control characters"),
    ],
)
def test_a_user_that_is_refused_is_a_sentence(editor: Browser, fields: dict[str, str], reason: str) -> None:
    response = editor.submit("/users/set", fields)
    assert response.status_code == 400
    assert reason in words(response.text)


def test_a_user_without_a_password_cannot_be_removed(editor: Browser) -> None:
    assert editor.submit("/users/remove", {"name": "nobody"}).status_code == 400
