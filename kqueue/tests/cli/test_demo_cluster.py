from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kqueue.cli.app import kqueue
from kqueue.demo import cluster_demo
from kqueue.demo.broker_processes import BrokerFailed
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.thorough import corners


def run(*args: str) -> Result:
    return CliRunner().invoke(kqueue, ["demo", "cluster", *args])


# kafka-python leaves the sockets open with which it can't reach the killed broker.
@pytest.mark.long
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_short_one_from_the_command_line(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    result = run("--flights", "1000", "--folder", str(folder))
    assert result.exit_code == 0, result.output
    assert "All 1,000 flights came back, each once and in order, and three logs are equal." in result.output
    assert f"The data is in {folder}" in result.output
    folders = [str(path) for path in sorted(folder.glob("broker-*/data"))]
    compared = CliRunner().invoke(kqueue, ["log", "verify", "--compare", *folders])
    assert compared.exit_code == 0
    assert "in 3 folders: equal below the high watermarks." in compared.output
    again = run("--folder", str(folder))
    assert (again.exit_code, again.output) == (1, f"Error: the folder {folder} is not empty; name a new one\n")


def test_a_difference_is_one_sentence_and_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    result = cluster_demo.ClusterResult(2)
    monkeypatch.setattr(cluster_demo, "run", lambda *args, **kwargs: result)
    shown = run()
    assert shown.exit_code == 1
    assert shown.output.splitlines()[-1].startswith(
        "Error: this is not what should come out: 0 of 2 flights were confirmed; no broker was killed; "
    )


def test_a_failure_is_one_sentence_and_exit_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: object, **kwargs: object) -> None:
        raise BrokerFailed("broker 1 did not start")

    monkeypatch.setattr(cluster_demo, "run", fail)
    result = run()
    assert (result.exit_code, result.output) == (1, "Error: the demo failed: broker 1 did not start.\n")


@pytest.mark.thorough
@pytest.mark.parametrize("number", corners([signal.SIGINT, signal.SIGTERM]))
def test_ctrl_c_in_the_middle_leaves_no_process_and_no_traceback(tmp_path: Path, number: signal.Signals) -> None:
    with started(
        [sys.executable, "-m", "kqueue.cli", "demo", "cluster", "--folder", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=process_environment(),
    ) as demo:
        assert demo.stdout is not None
        while not demo.stdout.readline().startswith("broker "):  # one has been killed, others take over
            pass
        demo.send_signal(number)
        _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors) == (130, "Ended before all was done.\n")
    logs = [path.read_text() for path in (tmp_path / "data").glob("broker-*/broker.log")]
    ports = [int(port) for text in logs for port in re.findall(r"serves PLAINTEXT://127\.0\.0\.1:(\d+);", text)]
    assert len(ports) >= 3
    for port in ports:
        with socket.socket() as link, pytest.raises(ConnectionRefusedError):
            link.connect(("127.0.0.1", port))
