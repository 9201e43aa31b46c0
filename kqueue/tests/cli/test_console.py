from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kqueue.cli.console import _log_to_stderr

Kq = Callable[..., Result]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--host", "0.0.0.0"), "users need not log in"),
        (("--host", "0.0.0.0", "--token", "0123456789abcdef"), "without TLS"),
        (("--token", "short"), "too short"),
        (("--token", "0123456789abcdef", "--token-file", "x"), "exclude each other"),
        (("--token-file", "/no/such/file"), "can't read the token"),
        (("--login", "GSSAPI"), "expected one of PLAIN"),
        (("--host", "192.0.2.1", "--login", "PLAIN", "--allow-plain-http", "--port", "1"), "can't listen"),
    ],
)
def test_options_that_are_not_safe_are_refused(kq: Kq, arguments: tuple[str, ...], words: str) -> None:
    result = kq("console", *arguments)
    assert result.exit_code in (1, 2)
    assert words in result.output
    assert isinstance(result.exception, SystemExit)


def test_a_name_in_a_line_of_the_log_begins_no_other_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = logging.getLogger("kqueue.console")
    for name in ("handlers", "propagate", "level"):
        monkeypatch.setattr(logger, name, getattr(logger, name) if name != "handlers" else [])
    _log_to_stderr()
    logger.warning("topic %s", "a\n2026 ERROR\x1b[2J")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.endswith(r"WARNING kqueue.console: topic a\n2026 ERROR\x1b[2J")


@pytest.mark.long
def test_a_console_serves_until_it_is_interrupted(bootstrap: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("0123456789abcdef\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "kqueue.cli", "console", "-b", bootstrap, "--port", "0", "--token-file", str(token)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    with process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = next(word for word in line.split() if word.startswith("http://127.0.0.1:"))
        with urllib.request.urlopen(address, timeout=20) as response:
            assert b"Token" in response.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    assert "read-only" in line
