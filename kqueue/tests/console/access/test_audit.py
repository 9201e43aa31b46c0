from __future__ import annotations

import logging

import pytest

from kqueue.console.access.audit import VALUE_CHARACTERS_MAX, audit


def test_a_line_cannot_be_forged_by_a_name(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        audit("delete group", user="ann", address="::1", resource='a" outcome="done"\naction="x\x1b', outcome="failed")
    [line] = caplog.messages
    assert "\n" not in line
    assert "\x1b" not in line
    assert r'resource="a\" outcome=\"done\"\\naction=\"x\\x1b"' in line


def test_a_long_value_is_cut(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        audit("change settings", user="", address="", details={"settings": "x" * 10_000})
    assert len(caplog.messages[0]) < VALUE_CHARACTERS_MAX + 100
    assert "user" not in caplog.messages[0]
