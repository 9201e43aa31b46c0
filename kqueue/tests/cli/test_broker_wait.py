"""Commands without a broker: they report that they wait, and end in time with an error."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import Result

import kqueue
from kqueue.cli import broker_wait
from kqueue.cli.broker_wait import await_broker, waiting
from kqueue.cli.connect import BrokerNotFound

Kq = Callable[..., Result]
COMMANDS = {
    "produce": ("produce", "orders"),
    "consume": ("consume", "orders", "--max-messages", "1"),
    "collect": ("collect", "--once", "--topic", "orders"),
}


@pytest.fixture
def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def arguments(command: str, folder: Path) -> tuple[str, ...]:
    if command != "collect":
        return COMMANDS[command]
    (folder / "app.log").write_text("a line\n")
    return (*COMMANDS[command], str(folder / "app.log"), "--state", str(folder / "state.json"))


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_broker_it_says_that_it_waits_and_ends(kq: Kq, free_port: int, command: str, tmp_path: Path,
                                                        monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    monkeypatch.setattr(broker_wait, "NOTICE_DELAY_S", 0.02)
    result = kq(*arguments(command, tmp_path), "-b", f"127.0.0.1:{free_port}", "--timeout", "0.3", input="x\n")
    assert result.exit_code == 1
    said, *_, error = result.stderr.splitlines()
    assert said.startswith("waiting for the broker")
    assert f"127.0.0.1:{free_port}" in said
    assert error.startswith("Error: ")
    assert "--timeout" in error
    assert "kqueue serve" in error


@pytest.mark.parametrize("command", COMMANDS)
def test_a_timeout_of_0_tries_once_and_says_nothing_of_waiting(
    kq: Kq, free_port: int, command: str, tmp_path: Path
) -> None:
    result = kq(*arguments(command, tmp_path), "-b", f"127.0.0.1:{free_port}", "--timeout", "0", input="x\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("Error: ")


def test_a_broker_that_comes_in_time_is_used(kq: Kq, free_port: int) -> None:
    broker = kqueue.Broker(port=free_port)
    starting = threading.Timer(0.2, broker.start)
    starting.start()
    try:
        result = kq("produce", "orders", "-b", f"127.0.0.1:{free_port}", "--timeout", "60", input="one\n")
        assert result.exit_code == 0, result.output
        starting.join()
        broker.assert_produced("orders", ["one"])
    finally:
        starting.join()
        broker.stop()


@pytest.mark.parametrize("command", [("topics", "list"), ("groups", "list"), ("cluster", "brokers"), ("consume", "t")])
def test_a_server_that_only_listens_is_no_broker_yet(kq: Kq, command: tuple[str, ...]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        result = kq(*command, "-b", f"127.0.0.1:{mute.getsockname()[1]}", "--timeout", "0.2")
    assert result.exit_code == 1
    assert "does not answer in Kafka's protocol in time; if it needs TLS" in result.stderr
    assert "waited 0.2 s; --timeout" in result.stderr


def test_a_port_that_is_open_before_its_broker_is_waited_for() -> None:
    """As the proxy of a container: it closes all connections until the broker is up."""
    accepted = 0
    with kqueue.Broker() as broker, socket.create_server(("127.0.0.1", 0)) as proxy:
        port = int(broker.bootstrap.rpartition(":")[2])

        def serve() -> None:
            nonlocal accepted
            for accepted in range(1, 4):
                with proxy.accept()[0] as client:
                    if accepted < 3:
                        continue
                    with socket.create_connection(("127.0.0.1", port)) as server:
                        server.sendall(client.recv(65536))
                        client.sendall(server.recv(65536))

        serving = threading.Thread(target=serve)
        serving.start()
        await_broker(f"127.0.0.1:{proxy.getsockname()[1]}", 60)
        serving.join()
    assert accepted == 3


def test_quick_commands_report_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with waiting("here:1"):
        pass
    assert capsys.readouterr().err == ""


def test_a_wrong_address_is_not_waited_for() -> None:
    with pytest.raises(click.BadParameter):
        await_broker("no-port:x", 60)


def test_the_time_that_is_left_is_for_the_first_answer(free_port: int) -> None:
    with kqueue.Broker() as broker:
        assert 1000 <= await_broker(broker.bootstrap, 0) <= 60_000
        assert 50_000 <= await_broker(broker.bootstrap, 60) <= 60_000
    with pytest.raises(BrokerNotFound, match="Connection refused"):
        await_broker(f"127.0.0.1:{free_port}", 0)
