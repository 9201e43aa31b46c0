"""The lock of a data folder, against real second processes."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kafka import KafkaProducer
from kafka.errors import KafkaError

import kqueue
from kqueue.base.errors import FolderInUse, FolderLost, SettingError
from kqueue.testing.process_environment import process_environment
from kqueue.tests.processes import started
from kqueue.tests.storage.test_locks import TRY_AS_KAFKA, end, hold_as_kafka, other_process

CHECK_MS = 5_000


def serve(folder: Path) -> tuple[int, str]:
    """Run `kqueue serve` on the folder; return its exit status and output."""
    command = [
        sys.executable,
        "-m",
        "kqueue.cli",
        "serve",
        "--set",
        f"log.dirs={folder}",
        "--set",
        "listeners=PLAINTEXT://127.0.0.1:0",
    ]
    with started(command, stdout=-1, stderr=subprocess.STDOUT, text=True, env=process_environment()) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        if "serves" in first:
            process.terminate()
        return process.wait(60), first


def assert_refused(folder: Path) -> None:
    status, text = serve(folder)
    assert (status, "is locked by another process" in text) == (1, True), text


@pytest.mark.long
def test_refused_second_broker_leaves_the_first_lock(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "data")
    with kqueue.Broker(tmp_path / "data"):
        for spelling in (tmp_path / "data", tmp_path / "data" / ".." / "data", link):
            with pytest.raises(FolderInUse, match="this process"):
                kqueue.Broker(spelling).start()
        assert_refused(tmp_path / "data")
        assert_refused(link)
        assert other_process(tmp_path / "data", TRY_AS_KAFKA) == "locked"


@pytest.mark.long
def test_removed_lock_file_is_recreated_with_one_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with kqueue.Broker(tmp_path) as broker:
        (tmp_path / ".lock").unlink()
        assert_refused(tmp_path)
        broker.clock.advance(ms=3 * CHECK_MS)
        assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"
        errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
        assert errors == [
            (
                f"{tmp_path}: {tmp_path}/.lock was removed while it was locked; it is locked again. Remove a lock file "
                "only when no broker runs"
            )
        ]
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_nothing_is_written_to_a_folder_locked_by_kafka(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broker = kqueue.Broker(tmp_path, auto_create_topics_enable=False).start()
    for topic in ("used", "unused"):
        broker.create_topic(topic)
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, retries=0)
    producer.send("used", b"before").get(timeout=60)
    (tmp_path / ".lock").unlink()
    other = hold_as_kafka(tmp_path)
    try:
        broker.clock.advance(ms=CHECK_MS)
        for topic in ("used", "unused"):
            with pytest.raises(KafkaError, match="KafkaStorageError|disk error"):
                producer.send(topic, b"after").get(timeout=60)
        producer.close()
        with pytest.raises(FolderLost):
            broker.stop()
    finally:
        end(other)
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert ["is offline until the next start" in text for text in errors] == [
        True,
        False,
    ]  # the second line: the stop could not write


@pytest.mark.long
def test_forked_process_does_not_release_the_lock(tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path) as broker:
        child = os.fork()
        if child == 0:
            try:
                broker.stop()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert_refused(tmp_path)
        assert other_process(tmp_path, TRY_AS_KAFKA) == "locked"


def test_folder_named_twice_is_refused(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "data")
    with pytest.raises(SettingError, match=r"log\.dirs: .*data and .*link are the same folder"):
        kqueue.Broker(log_dirs=f"{tmp_path / 'data'},{tmp_path / 'link'}").start()
