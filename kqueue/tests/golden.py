"""Data folders that Apache Kafka wrote, and the records that a stock client read from them.

Tests of interoperability use them without a JVM. `data_folder("4.3")` is a whole `log.dirs` folder
after a clean stop: read only, or to be copied with `copy_folder`. `expected("4.3")` holds every
record that a client read back, per topic. The watermarks and records of `txn:committed` are the
read_committed view of `txn`.
"""

from __future__ import annotations

import atexit
import base64
import functools
import json
import lzma
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent / "data" / "golden"
VERSIONS = ("2.8", "4.3")


class ExpectedRecord(NamedTuple):
    """One record as a client returned it.

    `timestamp_type`: 0 none (magic 0), 1 CreateTime, 2 LogAppendTime.
    """

    partition: int
    offset: int
    timestamp_type: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class ExpectedTopic(NamedTuple):
    """The content of one topic.

    `watermarks`: partition -> (low, high). `records`: ordered by partition, then in the order in
    which the client returned them.
    """

    watermarks: dict[int, tuple[int, int]]
    records: list[ExpectedRecord]

    def of_partition(self, partition: int) -> list[ExpectedRecord]:
        return sorted(
            (record for record in self.records if record.partition == partition), key=lambda record: record.offset
        )


@functools.cache
def data_folder(version: str) -> Path:
    """Return the data folder of this Kafka version, unpacked once per process; read only."""
    target = Path(tempfile.mkdtemp(prefix=f"kqueue-golden-{version}-"))
    atexit.register(shutil.rmtree, target, ignore_errors=True)
    with tarfile.open(FOLDER / f"kafka-{version}-data.tar.xz") as tar:
        tar.extractall(target, filter="data")
    return target / "data"


def copy_folder(version: str, target: Path) -> Path:
    """Copy the data folder below `target` for tests that change it; return its path."""
    return Path(shutil.copytree(data_folder(version), target / f"kafka-{version}"))


@functools.cache
def expected(version: str) -> dict[str, ExpectedTopic]:
    """The content of each topic, by name."""
    raw = json.loads(lzma.decompress((FOLDER / f"kafka-{version}-expected.json.xz").read_bytes()))
    return {name: _topic(topic) for name, topic in raw["topics"].items()}


def _topic(raw: dict[str, Any]) -> ExpectedTopic:
    watermarks = {int(partition): (low, high) for partition, (low, high) in raw["watermarks"].items()}
    return ExpectedTopic(watermarks, [_record(row) for row in raw["records"]])


def _record(row: list[Any]) -> ExpectedRecord:
    partition, offset, timestamp_type, timestamp, key, value, headers = row
    pairs = tuple((name, _bytes(text)) for name, text in headers)
    return ExpectedRecord(partition, offset, timestamp_type, timestamp, _bytes(key), _bytes(value), pairs)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
