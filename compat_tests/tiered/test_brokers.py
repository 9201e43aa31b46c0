"""A broker whose closed segments are in an object store, read by a client over the wire."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer

import kqueue
from compat_tests.tiered.servers import ACCESS_KEY, SECRET_KEY, Server
from compat_tests.waits import eventually
from kqueue.tier.stores.address import open_store

TOPIC = "t"
RECORDS = 400
VALUE = b"x" * 1000
SETTINGS = {
    "remote.log.storage.system.enable": True,
    "remote.log.manager.task.interval.ms": 100,
    "log.retention.check.interval.ms": 100,
}
TIERED = {"remote_storage_enable": "true", "segment_bytes": "20000", "local_retention_bytes": "1"}


def broker(folder: Path, url: str) -> kqueue.Broker:
    return kqueue.Broker(path=folder, settings={**SETTINGS, "kqueue.tier.url": url})


def produce(address: str, start: int, count: int) -> None:
    producer = KafkaProducer(bootstrap_servers=address, linger_ms=0, batch_size=0)
    for number in range(start, start + count):
        producer.send(TOPIC, key=b"%d" % number, value=VALUE)
    producer.flush(60)
    producer.close()


def consumed(address: str, count: int) -> list[int]:
    """Return the numbers of the records from the beginning on."""
    consumer = KafkaConsumer(TOPIC, bootstrap_servers=address, auto_offset_reset="earliest", consumer_timeout_ms=60_000)
    numbers = []
    for record in consumer:
        assert record.offset == len(numbers)
        numbers.append(int(record.key))
        if len(numbers) == count:
            break
    consumer.close()
    return numbers


def segments(url: str) -> list[str]:
    """Return the keys of the segments in a tier."""
    store = open_store(url)
    keys = [entry.key for entry in store.list("topics") if "/segments/" in entry.key]
    store.close()
    return keys


def local_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob(f"{TOPIC}-0/*.log"))


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)


def without_keys(server: Server, prefix: str) -> str:
    """Return the URL for the settings of a broker."""
    return server.url(prefix, access_key_id="", secret_access_key="")


@pytest.fixture
def url(server: Server, prefix: str) -> str:
    return without_keys(server, prefix)


def test_topic_is_read_from_the_store_after_its_segments_have_left_the_disk(tmp_path: Path, url: str) -> None:
    with broker(tmp_path, url) as running:
        running.create_topic(TOPIC, partitions=1, **TIERED)
        produce(running.bootstrap, 0, RECORDS)
        eventually(lambda: local_bytes(tmp_path) < 60_000, "segments leave the disk")
        assert consumed(running.bootstrap, RECORDS) == list(range(RECORDS))
        running.restart()
        produce(running.bootstrap, RECORDS, 10)
        assert consumed(running.bootstrap, RECORDS + 10) == list(range(RECORDS + 10))
    assert len(segments(url)) > 10


def test_deleted_topic_leaves_the_store(tmp_path: Path, url: str) -> None:
    with broker(tmp_path, url) as running:
        running.create_topic(TOPIC, partitions=1, **TIERED)
        produce(running.bootstrap, 0, 100)
        eventually(lambda: local_bytes(tmp_path) < 60_000, "segments leave the disk")
        assert segments(url)
        running.topics[TOPIC].delete()
        eventually(lambda: not segments(url), "the segments leave the store")


def test_copies_go_on_after_the_server_was_away(tmp_path: Path, versity: Server, prefix: str) -> None:
    with broker(tmp_path, without_keys(versity, prefix)) as running:
        running.create_topic(TOPIC, partitions=1, **TIERED)
        produce(running.bootstrap, 0, 100)
        eventually(lambda: local_bytes(tmp_path) < 60_000, "segments leave the disk")
        versity.kill()
        produce(running.bootstrap, 100, 100)
        assert local_bytes(tmp_path) >= 100_000, "nothing leaves the disk that the store lacks"
        versity.start()
        eventually(lambda: local_bytes(tmp_path) < 60_000, "segments leave the disk again", 120)
        assert consumed(running.bootstrap, 200) == list(range(200))
