"""The set-up of docs/security.md, from nothing, by the commands as they are printed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import shlex
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from click.testing import CliRunner
from confluent_kafka import Producer
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import KafkaError

from kqueue.cli.app import kqueue
from kqueue.testing.process_environment import process_environment
from kqueue.tests.doc_pages import run_line
from kqueue.tests.waits import eventually

TEXT = (Path(__file__).parents[3] / "docs" / "security.md").read_text()
PASSWORDS = {"ADMIN_PASSWORD": "adm1n-M4rk3r", "ANN_PASSWORD": "ann-M4rk3r"}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port: int = bound.getsockname()[1]
        return port


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.M | re.S)


def block(language: str) -> str:
    return blocks(language)[0]


class SetUp:
    """A broker that the page has set up in `folder`."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.bootstrap = f"localhost:{port}"
        self.ca = str(folder / "certs" / "ca.pem")
        self.checked = ""
        self.path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SetUp]:
    folder, port = tmp_path_factory.mktemp("security"), free_port()
    up = SetUp(folder, port)
    (folder / "server.properties").write_text(block("properties").replace("9093", str(port)))
    commands = folder / "bin"
    commands.mkdir()
    (commands / "kqueue").write_text(f'#!/bin/sh\nexec {sys.executable} -m kqueue.cli "$@"\n')
    (commands / "kqueue").chmod(0o755)
    environment = process_environment(**PASSWORDS, PATH=up.path)
    *steps, serve = block("sh").splitlines()
    assert serve == "kqueue serve server.properties"
    for step in steps:
        for name, password in PASSWORDS.items():
            step = step.replace(f'"${name}"', f"'{password}'")
        up.checked = run_line(step, folder)
    log = folder / "log"
    with log.open("w") as stderr, subprocess.Popen(["sh", "-c", f"exec {serve}"], cwd=folder, env=environment,
                                                    stderr=stderr) as process:  # fmt: skip
        try:
            eventually(lambda: " serves SASL_SSL" in log.read_text() or process.poll() is not None)
            yield up
        finally:
            process.terminate()
            assert process.wait(60) == 0
    text = log.read_text()
    assert not any(password in text for password in PASSWORDS.values())
    stored = [path for path in (folder / "kqueue-data").rglob("*") if path.is_file()]
    for path in stored:
        assert not any(password.encode() in path.read_bytes() for password in PASSWORDS.values())
    modes = {path.stat().st_mode & 0o777 for path in stored}
    assert modes == {0o600}


def python_config(up: SetUp, password: str | None = None) -> dict[str, Any]:
    return {
        "bootstrap_servers": up.bootstrap,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": up.ca,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": password or PASSWORDS["ANN_PASSWORD"],
    }


@pytest.mark.long
def test_the_check_says_that_nothing_is_open(running: SetUp) -> None:
    assert "other machines" in running.checked
    assert "anonymous    nothing: all listeners authenticate" in running.checked
    assert "SCRAM users  2" in running.checked


def client_of(up: SetUp, number: int) -> Any:
    """Return the client that a Python block of the page creates."""
    text = blocks("python")[number].replace("localhost:9093", up.bootstrap).replace("certs/ca.pem", up.ca)
    names = {"KafkaProducer": KafkaProducer, "AIOKafkaProducer": AIOKafkaProducer, "Producer": Producer, "ssl": ssl}
    return eval(text.strip(), {**names, "os": Environment})


class Environment:
    """Stands for the module `os` in the page's snippets."""

    environ = PASSWORDS


def test_the_three_clients_work_as_the_page_creates_them(running: SetUp) -> None:
    assert len(blocks("python")) == 3
    producer = client_of(running, 0)
    producer.send("orders", b"1").get(60)
    producer.close()

    async def send() -> None:
        async with client_of(running, 1) as client:
            await client.send_and_wait("orders", b"2")

    asyncio.run(send())
    confluent = client_of(running, 2)
    confluent.produce("orders", b"3")
    assert confluent.flush(60) == 0
    consumer = KafkaConsumer(
        "orders",
        group_id="billing",
        auto_offset_reset="earliest",
        consumer_timeout_ms=20_000,
        **python_config(running),
    )
    assert sorted(next(consumer).value for _ in range(3)) == [b"1", b"2", b"3"]
    consumer.close()


def test_the_commands_work_with_the_pages_file(running: SetUp) -> None:
    (file,) = [text for text in blocks("properties") if text.startswith("security.protocol=SASL_SSL\nssl.truststore")]
    path = running.folder / "client.properties"
    path.write_text(file.replace('"ANN_PASSWORD"', f'"{PASSWORDS["ANN_PASSWORD"]}"'))
    commands = blocks("sh")[1].replace("localhost:9093", running.bootstrap).splitlines()
    assert len(commands) == 3
    for command in commands:
        with contextlib.chdir(running.folder):
            runner = CliRunner(env={"XDG_CONFIG_HOME": str(running.folder / "config")})
            done = runner.invoke(kqueue, shlex.split(command)[1:])
        assert done.exit_code == 0, (command, done.output)
        assert not any(password in done.output for password in PASSWORDS.values())
    log = (running.folder / "log").read_text()
    assert "before its TLS handshake" not in log, "commands do not open connections for nothing"


@pytest.mark.long
def test_others_do_nothing(running: SetUp) -> None:
    producer = KafkaProducer(**python_config(running), retries=0, max_block_ms=10_000)
    with pytest.raises(KafkaError, match=r"(?i)authoriz"):
        producer.send("payments", b"x").get(60)
    producer.close()
    with pytest.raises(KafkaError):
        KafkaProducer(**python_config(running, "wrong-M4rk3r"), bootstrap_timeout_ms=5_000)
    with pytest.raises(KafkaError):
        KafkaProducer(bootstrap_servers=running.bootstrap, bootstrap_timeout_ms=3_000)
    events = [json.loads(line[line.index("{") :]) for line in (running.folder / "log").read_text().splitlines()
              if '"decision"' in line]  # fmt: skip
    assert {event["resource"] for event in events if event["decision"] == "denied"} >= {"TOPIC:payments"}
    assert any(event["decision"] == "authentication failed" for event in events)
