from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from kqueue.base.errors import SettingError
from kqueue.cli.schema_registry_process import RegistryChoice, schema_registry_arguments
from kqueue.config.properties import make_config, read_values
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.schema_registry.http_calls import INT, call
from kqueue.tests.waits import eventually


def arguments(listeners: str) -> list[str]:
    pairs = [f"listeners={listeners}", "advertised.listeners=PLAINTEXT://localhost:9093"]
    config = make_config(read_values(None, {}, pairs if "0.0.0.0" in listeners else pairs[:1]))
    return schema_registry_arguments(config, RegistryChoice(8082))


@pytest.mark.parametrize(
    ("listeners", "address"),
    [
        ("PLAINTEXT://0.0.0.0:9093", "127.0.0.1:9093"),
        ("SASL_PLAINTEXT://127.0.0.1:9094,PLAINTEXT://[::1]:9093", "[::1]:9093"),
    ],
)
def test_the_registry_connects_to_the_listener_without_a_login(listeners: str, address: str) -> None:
    assert arguments(listeners) == ["--bootstrap-server", address, "--timeout", "600", "--port", "8082"]


@pytest.mark.parametrize("listeners", ["PLAINTEXT://127.0.0.1:0", "SSL://127.0.0.1:9093", "SASL_PLAINTEXT://:9093"])
def test_a_listener_that_it_can_not_use_by_itself_is_refused(listeners: str) -> None:
    with pytest.raises(SettingError, match="Start the registry by itself"):
        arguments(listeners)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_registry_of_a_broker_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    port, registry = free_port(), free_port()
    command = [sys.executable, "-m", "kqueue.cli", "serve", "--port", str(port)]
    command += ["--schema-registry", "--schema-registry-port", str(registry)]
    with started(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=tmp_path, env=process_environment()
    ) as broker:
        line = broker.stdout.readline()
        assert line == f"The schema registry of 127.0.0.1:{port} is at http://127.0.0.1:{registry}\n"
        assert call(f"http://127.0.0.1:{registry}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
        os.kill(broker.pid, number)
        broker.wait(60)
        eventually(lambda: not is_open(registry))
