"""Tests of docs/console.md: its commands are accepted; what it says of logins and logs holds."""

from __future__ import annotations

import logging
import re
import shlex

import pytest

from kqueue.cli.console import console
from kqueue.cli.serve import serve
from kqueue.client import ClientOptions
from kqueue.console.access.audit import audit
from kqueue.console.access.sessions import IDLE_S, LIFE_S
from kqueue.console.charts.units import ago_text
from kqueue.console.history.cluster_history import GROUP_PARTITIONS_MAX, GROUPS_MAX, TOPICS_MAX
from kqueue.console.history.sampler import BUSY_SHARE, INTERVAL_MS
from kqueue.console.history.series import resolutions
from kqueue.console.options import ConsoleOptions
from kqueue.security.sasl.login import MODULES
from kqueue.tests.doc_pages import Page
from kqueue.web.failure_limit import FAILURES_MAX, FAILURES_WINDOW_S

PAGE = Page("docs/console.md")
COMMANDS = [line for line in PAGE.commands() if line.startswith("kqueue console")]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_is_accepted(command: str) -> None:
    given = console.make_context("kqueue console", shlex.split(command)[2:]).params
    options = {name: given[name] for name in ("host", "port", "login", "token", "tls_cert", "tls_key", "allowed_hosts")}
    assert ConsoleOptions(client=ClientOptions(bootstrap=given["bootstrap"]), **options)


def test_every_option_is_one_of_the_command() -> None:
    named = set(re.findall(r"`(--[a-z-]+)", PAGE.text))
    assert named
    assert named <= {
        option for command in (console, serve) for parameter in command.params for option in parameter.opts
    }


def test_mechanisms_and_times_are_those_of_the_code() -> None:
    assert "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512" in PAGE.text
    assert set(MODULES) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
    assert "eight hours without use, or a day" in PAGE.text
    assert (IDLE_S, LIFE_S) == (8 * 3600, 24 * 3600)
    assert "ten logins failed within a minute" in PAGE.text
    assert (FAILURES_MAX, FAILURES_WINDOW_S) == (10, 60)


def test_the_line_of_a_change_is_as_shown(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.console.audit"):
        audit("create topic", resource="orders", user="ann", address="127.0.0.1")
    assert caplog.messages[0] in PAGE.text


def test_what_is_said_of_the_history_is_that_of_the_code() -> None:
    spans = [ago_text(each.span_ms).replace(" h", " hours").replace(" min", " minutes") for each in resolutions(10_000)]
    assert all(f"| {span} |" in PAGE.text for span in spans)
    assert (INTERVAL_MS, BUSY_SHARE) == (10_000, 5)
    assert "every ten seconds" in PAGE.text
    assert "more than a fifth of the interval" in " ".join(PAGE.text.split())
    limits = f"than {TOPICS_MAX:,} topics, {GROUPS_MAX:,} groups or {GROUP_PARTITIONS_MAX:,} partitions of groups"
    assert limits in " ".join(PAGE.text.split())
