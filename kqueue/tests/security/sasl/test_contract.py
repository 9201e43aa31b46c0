"""The common contract of all mechanisms."""

from __future__ import annotations

from kqueue.security.sasl.contract import invalid_credentials, malformed


def test_errors_name_the_mechanism_and_nothing_of_the_message():
    assert str(invalid_credentials("PLAIN")) == "Authentication failed: invalid credentials with SASL mechanism PLAIN"
    assert str(malformed("PLAIN", "a user")) == "Authentication failed: expected a user with SASL mechanism PLAIN"
