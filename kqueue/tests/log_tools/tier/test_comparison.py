from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from kqueue.log.formats.checkpoints import encode_partition_metadata
from kqueue.log.log import Log
from kqueue.log_tools.errors import NotALogFolder
from kqueue.log_tools.tier.comparison import ComparedLogs, compare_with_folder
from kqueue.log_tools.tier_urls import open_url
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_log, put, put_records
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.memory import MemoryTierStore, forget_objects

_numbers = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    name = f"comparison/{next(_numbers)}"
    yield name
    forget_objects(name)


@pytest.fixture
def store(name: str) -> TierStore:
    store = MemoryTierStore(name)
    put_records(store)
    return store


def write_folder(log: Log, folder: Path, topic_id: bytes | None = ORDERS.topic_id) -> Path:
    """Write the files of a log in memory to a data folder."""
    target = folder / "orders-0"
    target.mkdir(parents=True)
    for entry in log.storage.list(log.folder):
        (target / entry.name).write_bytes(log.storage.read(f"{log.folder}/{entry.name}"))
    if topic_id is not None:
        (target / "partition.metadata").write_bytes(encode_partition_metadata(topic_id))
    return target


def compare(name: str, folder: Path) -> list[ComparedLogs]:
    return compare_with_folder(open_url(f"memory://{name}"), folder)


def test_equal_logs_have_no_findings(name: str, store: TierStore, tmp_path: Path) -> None:
    target = write_folder(copied_log(store), tmp_path)
    (one,) = compare(name, tmp_path)
    end = Manifest.open(store, ORDERS).end_offset
    assert one == ComparedLogs("orders-0", 0, end, [])
    assert compare(name, target) == [one]
    assert compare_with_folder(open_url(f"memory://{name}/orders-0"), target) == [one]


def test_first_difference_is_found(name: str, store: TierStore, tmp_path: Path) -> None:
    target = write_folder(copied_log(store), tmp_path)
    segment = sorted(target.glob("*.log"))[1]
    data = bytearray(segment.read_bytes())
    data[70] ^= 1
    segment.write_bytes(data)
    (one,) = compare(name, tmp_path)
    (finding,) = one.findings
    assert "as in the local log" in finding.expected
    assert finding.severity == "error"


def test_offsets_that_only_one_has_are_not_compared(name: str, store: TierStore, tmp_path: Path) -> None:
    target = write_folder(copied_log(store), tmp_path)
    first, second = sorted(target.glob("*.log"))[:2]
    first.unlink()
    (one,) = compare(name, tmp_path)
    assert (one.start_offset, one.findings) == (int(second.stem), [])


def test_offsets_that_neither_has_are_an_error(name: str, store: TierStore, tmp_path: Path) -> None:
    target = write_folder(copied_log(store), tmp_path)
    manifest = Manifest.open(store, ORDERS)
    manifest.rebuild(list(manifest.segments())[:1], 0)
    for file in sorted(target.glob("*.log"))[:3]:
        file.unlink()
    (one,) = compare(name, tmp_path)
    assert one.start_offset == one.end_offset
    assert "neither has them" in one.findings[0].found


def test_local_log_that_ends_before_the_tier_is_a_note(name: str, store: TierStore, tmp_path: Path) -> None:
    target = write_folder(copied_log(store), tmp_path)
    for file in sorted(target.glob("*.log"))[2:]:
        file.unlink()
    (one,) = compare(name, tmp_path)
    assert [finding.severity for finding in one.findings] == ["note"]


def test_batch_that_cannot_be_read_is_an_error(name: str, store: TierStore, tmp_path: Path) -> None:
    write_folder(copied_log(store), tmp_path)
    segment = list(Manifest.open(store, ORDERS).segments())[1]
    put(store, segment.key(ORDERS), b"x")
    (one,) = compare(name, tmp_path)
    assert one.findings[0].expected == "batches that can be read"


def test_log_of_another_topic_is_left_out(name: str, store: TierStore, tmp_path: Path) -> None:
    log = copied_log(store)
    write_folder(log, tmp_path / "other", bytes(16))
    assert compare(name, tmp_path / "other") == []
    write_folder(log, tmp_path / "unknown", None)
    assert len(compare(name, tmp_path / "unknown")) == 1


def test_folder_without_logs_is_refused(name: str, store: TierStore, tmp_path: Path) -> None:
    copied_log(store)
    with pytest.raises(NotALogFolder):
        compare(name, tmp_path)
