"""The command with real files and a broker: rotation, kills, truncation, an unavailable broker."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

from kqueue import Broker
from kqueue.collect import line_sender
from kqueue.collect.state_file import AgentState, StateFile, StateUnusable
from kqueue.embedded.inspection.records import Record
from kqueue.testing import faults
from kqueue.tests.collect.tailer_harness import copy_and_truncate, rotate, write
from kqueue.tests.waits import eventually

Done = Callable[..., str]
Kq = Callable[..., Result]
DEADLINE_S = 60.0


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(
        settings={"group.initial.rebalance.delay.ms": 0, "num.partitions": 2, "auto.create.topics.enable": "false"}
    ) as running:
        yield running


@pytest.fixture
def logs(broker: Broker, fresh: str) -> str:
    """A new topic of two partitions."""
    broker.create_topic(fresh, partitions=2)
    return fresh


@pytest.fixture
def bootstrap(broker: Broker) -> str:
    return broker.bootstrap


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "app.log"


def records(broker: Broker, topic: str) -> list[Record]:
    return [record for partition in (0, 1) for record in broker.topics[topic].records(partition=partition)]


def values(broker: Broker, topic: str) -> list[bytes | None]:
    return [record.value for record in records(broker, topic)]


class Agent:
    """`kqueue collect` in its own process."""

    def __init__(self, folder: Path, bootstrap: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kqueue.cli", "collect", *args, "--interval", "0.02", "-b", bootstrap],
            cwd=folder,
            stderr=subprocess.PIPE,
            text=True,
        )

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        self.process.send_signal(number)
        _, stdout = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode, stdout


@pytest.fixture
def agent(log: Path, broker: Broker) -> Iterator[Callable[..., Agent]]:
    started: list[Agent] = []

    def start(*args: str) -> Agent:
        started.append(Agent(log.parent, broker.bootstrap, *args))
        return started[-1]

    yield start
    for one in started:
        one.process.kill()
        one.process.communicate()


def test_once(kq: Kq, broker: Broker, logs: str, log: Path) -> None:
    write(log, b"a\nb\n")
    result = kq("collect", "app.log", "--topic", logs, "--once", "--host", "here")
    assert (result.exit_code, result.stderr) == (0, f"Sent 2 lines to {logs}.\n")
    first, second = records(broker, logs)
    assert (first.key, first.value, second.value) == (str(log).encode(), b"a", b"b")
    headers = dict(second.headers)
    assert len(headers["source"] or b"") == 16
    assert headers == {
        "host": b"here",
        "file": str(log).encode(),
        "source": dict(first.headers)["source"],
        "offset": b"2",
    }
    write(log, b"c\n")
    assert kq("collect", "app.log", "--topic", logs, "--once").stderr == f"Sent 1 line to {logs}.\n"
    assert values(broker, logs) == [b"a", b"b", b"c"]


@pytest.mark.parametrize(("key", "expected"), [("path", None), ("name", b"app.log"), ("host", b"h"), ("none", None)])
def test_keys(done: Done, broker: Broker, logs: str, log: Path, key: str, expected: bytes | None) -> None:
    write(log, b"a\n")
    done("collect", "app.log", "-t", logs, "--once", "--key", key, "--host", "h")
    (record,) = records(broker, logs)
    assert record.key == (str(log).encode() if key == "path" else expected)


def test_parts_of_a_line(done: Done, broker: Broker, logs: str, log: Path) -> None:
    write(log, b"x" * 20 + b"\nrest")
    done("collect", "app.log", "-t", logs, "--once", "--max-line", "16", "--partial", "0", "--codec", "zstd")
    assert [(record.value, dict(record.headers)["part"]) for record in records(broker, logs)] == [
        (b"x" * 16, b"0"), (b"x" * 4, b"1"), (b"rest", b"0"),
    ]  # fmt: skip


@pytest.mark.long
def test_ctrl_c_keeps_the_position(agent: Callable[..., Agent], broker: Broker, logs: str, log: Path) -> None:
    write(log, b"a\n")
    for number, expected in ((signal.SIGINT, 1), (signal.SIGTERM, 2)):
        running = agent("app.log", "-t", logs, "--from-beginning")
        eventually(lambda expected=expected: len(records(broker, logs)) == expected)  # type: ignore[misc]
        code, stdout = running.end(number)
        assert (code, stdout) == (130 if number == signal.SIGINT else 0, f"Sent 1 line to {logs}.\n")
        write(log, b"b\n")


@pytest.mark.thorough
def test_repeated_rotation_and_kills(agent: Callable[..., Agent], broker: Broker, logs: str, log: Path) -> None:
    """S1.5: nothing is lost, and nothing is sent twice."""
    expected: list[bytes] = []

    def all_there() -> bool:
        return set(values(broker, logs)) >= set(expected)

    for round_ in range(6):
        running = agent("app.log", "-t", logs, "--from-beginning", "--batch", "50")
        for step in range(4):
            lines = [b"%d-%d-%d" % (round_, step, number) for number in range(300)]
            expected += lines
            write(log, b"\n".join(lines) + b"\n")
            seen = len(set(values(broker, logs)))
            eventually(lambda seen=seen: len(set(values(broker, logs))) > seen)  # type: ignore[misc]
            if step == 2:
                (copy_and_truncate if round_ % 2 else rotate)(log)
                eventually(all_there)
        running.end(signal.SIGKILL)
    agent("app.log", "-t", logs)
    eventually(all_there)
    assert values(broker, logs) == expected


@pytest.mark.parametrize("unfinished", [False, True])
def test_killed_between_the_topic_and_the_position(
    kq: Kq, broker: Broker, logs: str, log: Path, monkeypatch: pytest.MonkeyPatch, unfinished: bool
) -> None:
    write(log, b"first\n")
    assert kq("collect", "app.log", "-t", logs, "--once", "--partial", "0").exit_code == 0
    write(log, b"a\nb\nc" if unfinished else b"a\nb\nc\n")
    saves = itertools.count()
    save = StateFile.save

    def die(file: StateFile, state: AgentState) -> None:
        if next(saves):
            raise StateUnusable("as if it had been killed")
        save(file, state)

    with monkeypatch.context() as patch:
        patch.setattr(StateFile, "save", die)
        assert "as if" in kq("collect", "app.log", "-t", logs, "--once", "--partial", "0").stderr
    assert values(broker, logs) == [b"first", b"a", b"b", b"c"]
    write(log, b"d\n")
    assert kq("collect", "app.log", "-t", logs, "--once").stderr == f"Sent 1 line to {logs}.\n"
    assert values(broker, logs)[4:] == ([b"cd"] if unfinished else [b"d"])  # a line that has grown is sent again


@pytest.mark.long
def test_unavailable_broker(agent: Callable[..., Agent], log: Path) -> None:
    with Broker(settings={"num.partitions": 1}) as broker:
        running = Agent(log.parent, broker.bootstrap, "app.log", "-t", "logs", "--from-beginning")
        write(log, b"a\n")
        eventually(lambda: "logs" in broker.topics and len(broker.topics["logs"].records()) == 1)
        broker.restart()
        write(log, b"b\n")
        eventually(lambda: len(broker.topics["logs"].records()) == 2)
        with faults(broker) as faulty:
            faulty.drop_reply("Produce", times=2)
            write(log, b"c\n")
            eventually(lambda: len(broker.topics["logs"].records()) == 3)
        code, _ = running.end()
        assert code == 130
        assert [record.value for record in broker.topics["logs"].records()] == [b"a", b"b", b"c"]


@pytest.mark.long
def test_agent_without_a_broker_waits_and_ends_on_a_signal(log: Path) -> None:
    with Broker() as broker:
        bootstrap = broker.bootstrap
    running = Agent(log.parent, bootstrap, "app.log", "-t", "logs")
    assert running.process.stderr is not None
    assert "waiting for the broker: no broker answers" in running.process.stderr.readline()
    code, stdout = running.end()
    assert (code, stdout) == (130, "Sent 0 lines to logs; what was not confirmed is sent at the next start.\n")


def test_missing_topic(kq: Kq, fresh: str, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(line_sender, "CONNECT_TIMEOUT_MS", 500)
    result = kq("collect", "app.log", "-t", fresh, "--once")
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1].startswith(f"Error: there is no topic '{fresh}', and the broker makes none")


def test_a_line_that_the_topic_refuses_stops_the_agent_before_it(kq: Kq, broker: Broker, fresh: str, log: Path) -> None:
    broker.create_topic(fresh, max_message_bytes=1000)
    write(log, b"x" * 1200 + b"\n")
    for _ in range(2):
        result = kq("collect", "app.log", "-t", fresh, "--once")
        assert result.exit_code == 1
        assert f"Error: the broker will not take what stands at byte 0 of {log}: a record is larger" in result.stderr
    assert kq("collect", "app.log", "-t", fresh, "--once", "--max-line", "100").exit_code == 0
    assert len(broker.topics[fresh].records()) == 12


def test_contradictory_options(kq: Kq, logs: str, log: Path) -> None:
    assert "is a folder; write" in kq("collect", str(log.parent), "-t", logs).stderr
    assert kq("collect", "-t", logs).exit_code == 2
    assert "only letters, digits" in kq("collect", "x", "-t", "no good").stderr
    Path(f"kqueue-collect-{logs}.json").write_text("{")
    assert "has no positions" in kq("collect", "app.log", "-t", logs, "--once").stderr


@pytest.mark.long
def test_two_agents_with_one_state(agent: Callable[..., Agent], kq: Kq, broker: Broker, logs: str, log: Path) -> None:
    write(log, b"a\n")
    agent("app.log", "-t", logs, "--from-beginning")
    eventually(lambda: len(records(broker, logs)) == 1)
    assert "another agent keeps its positions" in kq("collect", "app.log", "-t", logs, "--once").stderr
