from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.base.errors import StorageFailed
from kqueue.base.names import uuid_text
from kqueue.log_tools.comparison import compare
from kqueue.log_tools.errors import NotALogFolder, RepairRefused
from kqueue.log_tools.export import export, open_logs
from kqueue.log_tools.repair import repair
from kqueue.log_tools.tier_urls import is_url, open_partition_url, open_url
from kqueue.log_tools.verify import verify
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import copied_log, put_records
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.folder import FolderTierStore
from kqueue.tier.stores.memory import MemoryTierStore, forget_objects

URL = "memory://tier-urls/here"
OTHER_ID = bytes(15) + b"\1"


@pytest.fixture
def store() -> Iterator[TierStore]:
    store = MemoryTierStore("tier-urls/here")
    put_records(store)
    yield store
    forget_objects("tier-urls/here")


def test_log_of_a_url_has_the_records_of_the_tier(store: TierStore) -> None:
    copied_log(store)
    log = kqueue.open_log(f"{URL}/orders-0")
    assert len(list(log)) > 20
    assert log.end_offset == Manifest.open(store, ORDERS).end_offset
    assert log.location == f"{URL}/orders-0"
    assert repr(log).endswith(f"segments, topic id {uuid_text(ORDERS.topic_id)}>")


def test_log_of_a_file_url_has_the_records_of_the_tier(tmp_path: Path) -> None:
    copied_log(FolderTierStore.of_path(str(tmp_path)))
    assert len(list(kqueue.open_log(f"file://{tmp_path}/orders-0"))) > 20


def test_newest_topic_of_a_name_is_opened(store: TierStore) -> None:
    copied_log(store)
    put_records(store, TopicRecord("orders", OTHER_ID, 1, created_ms=5000))
    copied_log(store, 20, partition=TieredPartition("orders", OTHER_ID, 0))
    assert kqueue.open_log(f"{URL}/orders-0").topic_id == OTHER_ID
    put_records(store, TopicRecord("orders", OTHER_ID, 1, created_ms=5000, deleted_ms=6000))
    assert kqueue.open_log(f"{URL}/orders-0/").topic_id == ORDERS.topic_id
    assert open_url(URL).topic_ids == {"orders": ORDERS.topic_id}


def test_tools_for_folders_take_the_url_of_a_tier_or_of_a_partition(store: TierStore, tmp_path: Path) -> None:
    copied_log(store)
    copied_log(store, partition=TieredPartition("orders", ORDERS.topic_id, 1))
    whole = verify(URL, deep=True)
    assert (whole.is_sound, whole.partitions) == (True, 2)
    one = verify(f"{URL}/orders-1")
    assert (one.is_sound, one.partitions) == (True, 1)
    assert compare([f"{URL}/orders-0", f"{URL}/orders-1"]).is_equal
    result = export(open_logs([URL], ["orders"]), tmp_path / "orders.jsonl")
    assert result.rows == 2 * len(list(kqueue.open_log(f"{URL}/orders-0")))
    assert len(open_logs([f"{URL}/orders-1"])) == 1


def test_name_of_a_tier_may_look_like_that_of_a_partition(store: TierStore) -> None:
    other = MemoryTierStore("tier-urls/tier-1")
    copied_log(other)
    assert open_url("memory://tier-urls/tier-1").partition is None
    assert kqueue.open_log("memory://tier-urls/tier-1/orders-0").end_offset > 0
    forget_objects("tier-urls/tier-1")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (f"{URL}/order-0", "has no topic order; did you mean 'orders'"),
        (f"{URL}/orders-1", "has no partition 1 of topic orders, id"),
        (URL, "names no partition of a tier"),
        ("memory://tier-urls/nothing/orders-0", "names no partition of a tier"),
        ("memory://orders-0", "names no partition of a tier"),
    ],
)
def test_what_is_not_there_is_said(store: TierStore, url: str, expected: str) -> None:
    copied_log(store)
    with pytest.raises(NotALogFolder, match=expected):
        kqueue.open_log(url)


def test_empty_store_is_no_tier() -> None:
    with pytest.raises(NotALogFolder, match=r"neither kqueue-tier\.json nor topics"):
        open_url("memory://tier-urls/nothing")


@pytest.mark.parametrize("url", ["ftp://host/orders-0", "memory://a?b=c/orders-0", "file://host/orders-0"])
def test_wrong_url_fails_without_its_options(url: str) -> None:
    with pytest.raises((StorageFailed, NotALogFolder)) as error:
        open_partition_url(url)
    assert "b=c" not in str(error.value)


def test_repair_refuses_a_url(store: TierStore, tmp_path: Path) -> None:
    copied_log(store)
    with pytest.raises(RepairRefused, match="segments never change"):
        repair(f"{URL}/orders-0?key=secret", tmp_path / "copy")


@pytest.mark.parametrize(("text", "expected"), [("s3://bucket/x", True), ("orders-0", False), ("c:/x", False)])
def test_urls_are_told_from_paths(text: str, expected: bool) -> None:
    assert is_url(text) is expected
    assert not is_url(Path(text))
