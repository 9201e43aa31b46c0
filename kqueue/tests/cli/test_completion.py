from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

import kqueue
import kqueue.client
from kqueue.cli import completion
from kqueue.cli.app import kqueue as root


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        for name in ("orders", "orders-copy", "payments"):
            broker.create_topic(name)
        broker.topics["orders"].produce_all(["a"])
        with kqueue.client.Client(broker.bootstrap) as client:
            client.commit("billing", {("orders", 0): 1})
        yield broker


def completed(line: str) -> list[str]:
    """Return what a shell shows after a line, whose last word is incomplete."""
    *words, incomplete = line.split(" ")
    complete = ShellComplete(root, {}, "kqueue", "_KQUEUE_COMPLETE")
    return [item.value for item in complete.get_completions(words[1:], incomplete)]


def test_topics_and_groups_come_from_the_broker_of_the_line(broker: kqueue.Broker) -> None:
    at = f"-b {broker.bootstrap}"
    assert completed(f"kqueue topics describe {at} ord") == ["orders", "orders-copy"]
    assert completed(f"kqueue topics delete {at} ") == ["orders", "orders-copy", "payments"]
    assert completed(f"kqueue topics describe {at} __c") == ["__consumer_offsets"]
    assert completed(f"kqueue consume {at} p") == ["payments"]
    assert completed(f"kqueue groups describe {at} b") == ["billing"]
    assert completed(f"kqueue groups reset-offsets billing {at} --topic pay") == ["payments"]
    assert completed(f"kqueue configs describe {at} topics pay") == ["payments"]
    assert completed(f"kqueue configs describe {at} groups b") == ["billing"]


def test_the_broker_may_be_that_of_a_variable_or_a_profile(
    broker: kqueue.Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("KQUEUE_BOOTSTRAP", broker.bootstrap)
    assert completed("kqueue topics describe pay") == ["payments"]
    monkeypatch.delenv("KQUEUE_BOOTSTRAP")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    completion_of = completed("kqueue topics list --profile p")
    assert completion_of == []
    from kqueue.cli.profiles import Profiles

    Profiles().write("prod", {"bootstrap.servers": broker.bootstrap})
    assert completed("kqueue topics list --profile p") == ["prod"]
    assert completed("kqueue profile use p") == ["prod"]
    assert completed("kqueue topics describe --profile prod pay") == ["payments"]


def test_settings() -> None:
    assert "retention.ms=" in completed("kqueue topics create orders --config retention")
    assert "log.retention.ms" in completed("kqueue settings log.retention")
    assert "log.retention.ms=" in completed("kqueue serve --set log.retention")
    assert "retention.ms=" in completed("kqueue configs alter topics orders --add retention")
    assert "log.retention.ms" in completed("kqueue configs describe brokers -s log.retention")


def test_a_broker_that_does_not_answer_completes_nothing(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(completion, "TIMEOUT_MS", 50)
    assert completed("kqueue topics describe -b 127.0.0.1:1 ord") == []
    assert completed("kqueue topics describe -b nonsense:x ord") == []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert completed(f"kqueue groups describe -b 127.0.0.1:{silent.getsockname()[1]} b") == []
    assert capfd.readouterr() == ("", "")
