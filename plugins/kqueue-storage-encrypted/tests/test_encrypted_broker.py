"""A real broker over it: what is on the disk, and that nothing else is different."""

from __future__ import annotations

import base64
import os
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import CorruptRecordError
from kqueue_storage_encrypted import KeySource, open_encrypted
from kqueue_storage_encrypted.format import HEADER, OVERHEAD
from kqueue_storage_encrypted.sealing import SettingSealer

import kqueue
from kqueue.base.config_resources import ResourceType
from kqueue.base.errors import StorageFailed
from kqueue.broker.configs.dynamic_configs import ConfigResource
from kqueue.log_tools.folder import LogFolder
from kqueue.testing.process_environment import process_environment
from kqueue.workers.subprocess_runner import SubprocessRunner

DEADLINE_S = 20
VARIABLE = "KQUEUE_ENCRYPTION_KEY"
SECRETS = {
    "value": b"two-coffees-for-table",
    "key": b"customer-of-today",
    "group": b"the-kitchen-group",
    "header": b"waiter-of-today",
}
LISTENS = re.compile(r"serves PLAINTEXT://(127\.0\.0\.1:\d+)")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, base64.b64encode(bytes(range(32))).decode())
    monkeypatch.delenv("KQUEUE_ENCRYPTION_KEY_FILE", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


def broker_over(folder: Path, **settings: Any) -> kqueue.Broker:
    return kqueue.Broker(path=folder, kqueue_storage="encrypted", **settings)


def produce(bootstrap: str, topic: str, count: int, *, first: int = 0, keys: int = 1_000_000) -> None:
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        for number in range(first, first + count):
            key = b"%s-%d" % (SECRETS["key"], number % keys)
            producer.send(
                topic, b"%s-%d" % (SECRETS["value"], number), key=key, headers=[("who", SECRETS["header"])], partition=0
            )
            if number % 10 == 9:
                producer.flush(timeout=DEADLINE_S)
        producer.flush(timeout=DEADLINE_S)
    finally:
        producer.close()


def consume(bootstrap: str, topic: str, *, offset: int | None = None, group: str | None = None) -> list[int]:
    """The numbers of all records, or those from `offset` on."""
    partition = TopicPartition(topic, 0)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, auto_offset_reset="earliest"
    )
    numbers: list[int] = []
    try:
        consumer.assign([partition])
        end = consumer.end_offsets([partition])[partition]
        if offset is None:
            consumer.seek_to_beginning(partition)
        else:
            consumer.seek(partition, offset)
        deadline = time.monotonic() + DEADLINE_S
        while (position := consumer.position(partition)) < end:
            assert time.monotonic() < deadline, f"{position} of {end} records are read"
            for record in consumer.poll(timeout_ms=1000).get(partition, []):
                assert record.value.startswith(SECRETS["value"])
                numbers.append(int(record.value.rpartition(b"-")[2]))
        if group is not None:
            consumer.commit()
    finally:
        consumer.close()
    return numbers


def test_a_broker_keeps_everything_and_shows_nothing(folder: Path) -> None:
    with broker_over(folder) as broker:
        broker.create_topic("orders")
        produce(broker.bootstrap, "orders", 200)
        assert consume(broker.bootstrap, "orders", group=SECRETS["group"].decode()) == list(range(200))
        broker.restart()
        produce(broker.bootstrap, "orders", 50, first=200)
    files = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert any(path.name.endswith(".log") and len(data) > 10_000 for path, data in files.items())
    for path, data in files.items():
        for what, secret in SECRETS.items():
            assert secret not in data, f"the {what} is in {path}"
        if path.name not in (".kqueue-encryption", ".lock") and not path.name.startswith("kqueue.db"):
            assert not data or data.startswith(b"kqueue\0E"), path
    with broker_over(folder) as broker:
        assert consume(broker.bootstrap, "orders") == list(range(250))
        assert broker.groups[SECRETS["group"].decode()].offsets["orders"][0] == 200
    assert [record.offset for record in LogFolder(open_encrypted(str(folder)), "orders-0")] == list(range(250))


def test_compaction_runs_in_a_process_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run = SubprocessRunner.run

    def note(self: SubprocessRunner, task: object) -> object:
        ran.append(type(task).__name__)
        return run(self, task)  # type: ignore[arg-type]

    monkeypatch.setattr(SubprocessRunner, "run", note)
    with broker_over(folder, log_cleaner_backoff_ms=1000) as broker:
        broker.create_topic("orders", cleanup_policy="compact", segment_bytes=4000, min_cleanable_dirty_ratio=0.01)
        produce(broker.bootstrap, "orders", 300, keys=7)
        broker.clock.advance(minutes=10)
        numbers = consume(broker.bootstrap, "orders")
        assert "CompactionTask" in ran
        assert len(numbers) < 150
        assert {number % 7: number for number in numbers} == {number % 7: number for number in range(293, 300)}
        broker.restart()
        assert consume(broker.bootstrap, "orders") == numbers
    for path in folder.rglob("*.log"):
        assert SECRETS["value"] not in path.read_bytes()


def test_retention_takes_old_segments(folder: Path) -> None:
    with broker_over(folder) as broker:
        broker.create_topic(
            "orders", segment_bytes=4000, retention_ms=3_600_000, message_timestamp_type="LogAppendTime"
        )
        produce(broker.bootstrap, "orders", 300)
        segments = len(list(folder.glob("orders-0/*.log")))
        broker.clock.advance(days=1)
        assert segments > 3
        assert len(list(folder.glob("orders-0/*.log"))) < 3
        produce(broker.bootstrap, "orders", 5, first=300)
        assert consume(broker.bootstrap, "orders")[-5:] == list(range(300, 305))


@pytest.fixture
def served(folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`kqueue serve` in a process of its own, and where it listens."""
    command = [
        sys.executable,
        "-m",
        "kqueue.cli",
        "serve",
        "--set",
        "kqueue.storage=encrypted",
        "--set",
        f"log.dirs={folder}",
    ]
    command += ["--set", "listeners=PLAINTEXT://127.0.0.1:0"]
    with subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=process_environment(**{VARIABLE: os.environ[VARIABLE]}),
    ) as process:
        try:
            assert process.stderr is not None
            told = ""
            while (match := LISTENS.search(told)) is None:
                assert select.select([process.stderr], [], [], DEADLINE_S)[0], f"it does not start: {told}"
                line = process.stderr.readline()
                assert line, f"it did not start: {told}"
                told += line
            yield process, match[1]
        finally:
            process.kill()
            process.communicate()


def test_confirmed_records_survive_a_kill(folder: Path, served: tuple[subprocess.Popen[str], str]) -> None:
    process, bootstrap = served
    produce(bootstrap, "orders", 120)
    process.send_signal(signal.SIGKILL)
    process.wait(DEADLINE_S)
    with broker_over(folder) as broker:
        assert consume(broker.bootstrap, "orders") == list(range(120))


def test_another_key_opens_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with broker_over(folder):
        pass
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    monkeypatch.setenv(VARIABLE, "00" * 32)
    with pytest.raises(StorageFailed, match="encrypted with another key"):
        broker_over(folder).start()
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(StorageFailed, match="set KQUEUE_ENCRYPTION_KEY_FILE"):
        broker_over(folder).start()
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_damage_costs_its_records_and_is_named(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    with broker_over(folder) as broker:
        broker.create_topic("orders")
        for first in (0, 10, 20):
            produce(broker.bootstrap, "orders", 10, first=first)
        assert consume(broker.bootstrap, "orders") == list(range(30))
    (path,) = folder.glob("orders-0/*.log")
    data = bytearray(path.read_bytes())
    data[HEADER.size + OVERHEAD + 100] ^= 1  # in the first batch
    path.write_bytes(data)
    with broker_over(folder) as broker:
        assert consume(broker.bootstrap, "orders", offset=20) == list(range(20, 30))
        partition = TopicPartition("orders", 0)
        consumer = KafkaConsumer(bootstrap_servers=broker.bootstrap, enable_auto_commit=False)
        try:
            consumer.assign([partition])
            consumer.seek(partition, 0)
            with pytest.raises(CorruptRecordError):
                consumer.poll(timeout_ms=DEADLINE_S * 1000)
        finally:
            consumer.close()
    told = [record.getMessage() for record in caplog.records if record.name == "kqueue.storage.encrypted"]
    assert any(re.search(r"orders-0/0+\.log: damaged at position 58 of the encrypted file", line) for line in told), (
        told
    )
    assert any(
        "00000000000000000000.log" in record.getMessage() for record in caplog.records if record.name == "kqueue.log"
    )


def test_sensitive_settings_are_encrypted_in_the_metadata_store(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    name = "listener.name.plaintext.ssl.key.password"

    def value(broker: kqueue.Broker) -> object:
        return broker._server.broker.configs.own(ConfigResource(ResourceType.BROKER, "1")).get(name)

    with broker_over(folder) as broker:
        broker.alter_config(**{name.replace(".", "_"): "pa55-of-the-key", "log_retention_ms": 777_777})
        assert value(broker) == "pa55-of-the-key"
        broker.restart()
        assert value(broker) == "pa55-of-the-key"
    stored = b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())
    assert b"777777" in stored
    assert b"pa55" not in stored
    assert "pa55" not in caplog.text


def test_a_sealed_setting_is_of_one_name_and_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sealer = SettingSealer(KeySource(variable=VARIABLE))
    sealed = sealer.seal("a", "secret")
    assert sealed != sealer.seal("a", "secret")
    assert sealer.unseal("a", sealed) == "secret"
    monkeypatch.setenv(VARIABLE, base64.b64encode(bytes(32)).decode())
    other = SettingSealer(KeySource(variable=VARIABLE))
    damaged = sealed[:40] + ("A" if sealed[40] != "A" else "B") + sealed[41:]
    for who, what, text in ((sealer, "b", sealed), (other, "a", sealed), (sealer, "a", damaged), (sealer, "a", "x")):
        with pytest.raises(StorageFailed, match="damaged, or was encrypted with another key"):
            who.unseal(what, text)
