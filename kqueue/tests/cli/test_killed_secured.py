"""A served broker with TLS, SCRAM and ACLs that is killed: what it answered is there again."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from kafka import KafkaConsumer, KafkaProducer

from kqueue.cli.app import kqueue as root
from kqueue.embedded.development_certificates import DevelopmentCertificates
from kqueue.security.jaas import SCRAM_MODULE
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started

PASSWORDS = {"admin": "first", "ann": "second"}
COUNT = 50


@contextmanager
def serving(settings: Path) -> Iterator[str]:
    """Run a broker, and kill it at the end; yields its address."""
    command = [sys.executable, "-m", "kqueue.cli", "serve", settings]
    with started(command, stderr=subprocess.PIPE, text=True, env=process_environment()) as process:
        assert process.stderr is not None
        lines: list[str] = []
        for line in iter(process.stderr.readline, ""):
            lines.append(line)
            if match := re.search(r"serves SASL_SSL://(127\.0\.0\.1:\d+)", line):
                yield match[1]
                return
        raise AssertionError("".join(lines))


def run(*args: str, input: str | None = None) -> str:
    done = CliRunner().invoke(root, args, input=input)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.long
def test_answered_security_changes_survive_a_kill(tmp_path: Path) -> None:
    certificates, folder, settings = DevelopmentCertificates(), tmp_path / "data", tmp_path / "server.properties"
    values = {
        **certificates.settings,
        "listeners": "SASL_SSL://127.0.0.1:0",
        "log.dirs": folder,
        "sasl.enabled.mechanisms": "SCRAM-SHA-512",
        "authorizer.class.name": "standard",
        "super.users": "User:admin",
    }
    settings.write_text("".join(f"{name}={value}\n" for name, value in values.items()))
    run("users", "add", "admin", "--folder", str(folder), input=PASSWORDS["admin"])
    client = {
        "security_protocol": "SASL_SSL",
        "ssl_cafile": certificates.authority_file,
        "sasl_mechanism": "SCRAM-SHA-512",
        "sasl_plain_username": "ann",
        "sasl_plain_password": PASSWORDS["ann"],
    }
    with serving(settings) as bootstrap:
        properties = {
            "security.protocol": "SASL_SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.authority_file,
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.jaas.config": f'{SCRAM_MODULE} required username="admin" password="{PASSWORDS["admin"]}";',
        }
        (tmp_path / "admin").write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        asked = "--bootstrap-server", bootstrap, "--command-config", str(tmp_path / "admin")
        run("users", "add", "ann", *asked, input=PASSWORDS["ann"])
        rights = "--allow-principal", "User:ann", "--producer", "--consumer", "--topic", "orders", "--group", "g"
        run("acls", "add", *rights, *asked)
        producer = KafkaProducer(bootstrap_servers=bootstrap, **client)
        sent = [producer.send("orders", b"%d" % number) for number in range(COUNT)]
        assert [one.get(timeout=60).offset for one in sent] == list(range(COUNT))
    producer.close(timeout=0)
    with serving(settings) as bootstrap:
        consumer = KafkaConsumer(
            "orders", group_id="g", bootstrap_servers=bootstrap, auto_offset_reset="earliest", **client
        )
        assert [next(consumer).value for _ in range(COUNT)] == [b"%d" % number for number in range(COUNT)]
        consumer.close()
