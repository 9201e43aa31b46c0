"""Refusals of security."""

from __future__ import annotations

from kqueue.security.errors import SaslAuthenticationFailed


def test_detail_for_the_log_is_not_in_the_message():
    error = SaslAuthenticationFailed("no", detail="the token has expired")
    assert str(error) == "no"
    assert "expired" not in repr(error)
    assert error.detail == "the token has expired"
