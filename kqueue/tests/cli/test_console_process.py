from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from kqueue.base.errors import SettingError
from kqueue.cli.console_process import ConsoleChoice, console_arguments
from kqueue.config.properties import make_config, read_values
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.waits import eventually


def arguments(*pairs: str) -> list[str]:
    return console_arguments(make_config(read_values(None, {}, pairs)), ConsoleChoice(8080))


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("PLAINTEXT://127.0.0.1:9093", "127.0.0.1:9093"),
        ("PLAINTEXT://[::1]:9093", "[::1]:9093"),
        ("SASL_PLAINTEXT://127.0.0.1:9094,PLAINTEXT://127.0.0.1:9093", "127.0.0.1:9093"),
    ],
)
def test_the_console_connects_to_the_listener_without_a_login(listeners: str, address: str) -> None:
    assert arguments(f"listeners={listeners}") == ["--bootstrap-server", address, "--port", "8080"]


def test_users_log_in_where_the_only_listener_has_sasl() -> None:
    given = arguments("listeners=SASL_PLAINTEXT://127.0.0.1:9094", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256")
    assert given == ["--bootstrap-server", "127.0.0.1:9094", "--port", "8080", "--login", "SCRAM-SHA-256"]


def test_the_metrics_of_each_worker_are_shown() -> None:
    pairs = ("listeners=PLAINTEXT://127.0.0.1:9093", "kqueue.metrics.listener=127.0.0.1:9404")
    assert arguments(*pairs)[4:] == ["--metrics", "http://127.0.0.1:9404/metrics"]
    config = make_config(read_values(None, {}, pairs))
    assert console_arguments(config, ConsoleChoice(8080), workers=2)[-1] == "http://127.0.0.1:9405/metrics"
    free = (pairs[0], "kqueue.metrics.listener=127.0.0.1:0")
    assert "--metrics" not in arguments(*free)


@pytest.mark.parametrize("listeners", ["PLAINTEXT://127.0.0.1:0", "SSL://127.0.0.1:9093"])
def test_a_listener_that_it_cannot_use_by_itself_is_refused(listeners: str) -> None:
    with pytest.raises(SettingError, match="Start the console by itself"):
        arguments(f"listeners={listeners}")


def test_changes_are_allowed_when_asked_for() -> None:
    config = make_config(read_values(None, {}, ["listeners=PLAINTEXT://127.0.0.1:9093"]))
    assert console_arguments(config, ConsoleChoice(8080, allow_changes=True))[-1] == "--allow-changes"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_console_of_a_broker_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    port, console = free_port(), free_port()
    command = [
        sys.executable,
        "-m",
        "kqueue.cli",
        "serve",
        "--port",
        str(port),
        "--console",
        "--console-port",
        str(console),
    ]
    with started(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path, env=process_environment()
    ) as broker:
        line = broker.stdout.readline()
        assert re.search(rf"127\.0\.0\.1:{port} is at http://127\.0\.0\.1:{console}/ \(read-only\)", line)
        with urllib.request.urlopen(f"http://127.0.0.1:{console}/static/console.css", timeout=20) as response:
            assert response.status == 200
        os.kill(broker.pid, number)
        broker.wait(60)
        eventually(lambda: not is_open(console))


def test_allowing_changes_without_a_console_is_refused(kq: Callable[..., Result]) -> None:
    result = kq("serve", "--console-allow-changes", "--port", "0")
    assert result.exit_code == 2
    assert "belongs to --console" in result.output
