"""A broker whose gzip is ISA-L's, and clients that know nothing of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kqueue_codec_isal import IsalCodec

import kqueue
from kqueue.records.codecs import CODECS, Buffer
from kqueue.records.codecs.gzip import GzipCodec

DEADLINE_MS = 20_000
VALUES = [b"two coffees and a cake, table %d" % (number % 7) for number in range(500)]


@pytest.fixture
def packed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """What the plugin was given to compress, by size."""
    sizes: list[int] = []
    compress = IsalCodec.compress

    def note(self: IsalCodec, data: Buffer, level: int | None = None) -> bytes:
        sizes.append(len(data))
        return compress(self, data, level)

    monkeypatch.setattr(IsalCodec, "compress", note)
    return sizes


def send(broker: kqueue.Broker, compression: str | None) -> None:
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, compression_type=compression, linger_ms=20)
    try:
        for value in VALUES:
            producer.send("orders", value)
        producer.flush(timeout=DEADLINE_MS / 1000)
    finally:
        producer.close()


def read(broker: kqueue.Broker) -> list[bytes]:
    consumer = KafkaConsumer(
        "orders", bootstrap_servers=broker.bootstrap, auto_offset_reset="earliest", consumer_timeout_ms=DEADLINE_MS
    )
    try:
        return [record.value for _, record in zip(VALUES, consumer, strict=False)]
    finally:
        consumer.close()


@pytest.mark.parametrize("compression", [None, "gzip", "lz4"])
def test_a_topic_of_gzip_is_compressed_by_it_and_read_by_all(
    compression: str | None, packed: list[int], tmp_path: Path
) -> None:
    with kqueue.Broker(path=tmp_path, settings={"kqueue.codecs": "isal"}) as broker:
        broker.create_topic("orders", compression_type="gzip", compression_gzip_level=6)
        send(broker, compression)
        assert read(broker) == VALUES
    assert bool(packed) == (compression != "gzip"), "what comes as gzip stays as it is"
    assert type(CODECS.by_id(1)) is GzipCodec, "the broker is gone, and zlib serves again"
    assert [record.value for record in kqueue.open_log(tmp_path / "orders-0")] == VALUES, "zlib reads the folder"
