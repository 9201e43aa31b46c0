from __future__ import annotations

import json

from kqueue.base.names import uuid_text
from kqueue.tests.cli.tier.conftest import Run
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import put, put_records
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore


def test_partitions_are_listed_with_offsets_and_times(run: Run, store: TierStore) -> None:
    result = run("list", store.location)
    assert result.exit_code == 0, result.output
    row = next(line for line in result.stdout.splitlines() if line.strip().startswith("orders"))
    end = Manifest.open(store, ORDERS).end_offset
    assert row.split()[:5] == ["orders", uuid_text(ORDERS.topic_id), "0", "2", "0"]
    assert str(end) in row
    assert "1970-01-01T00:00:01.000Z" in row
    assert result.stdout.splitlines()[-1].startswith("1 topic, 1 partition, 2 segments (")


def test_segments_are_listed_on_request(run: Run, store: TierStore) -> None:
    result = run("list", store.location, "--segments", "--topic", "orders")
    for segment in Manifest.open(store, ORDERS).segments():
        assert segment.object_id in result.stdout
    found = json.loads(run("list", store.location, "--segments", "--json").stdout)
    assert len(found["topics"][0]["partitions"][0]["segment_list"]) == 2


def test_json_has_records_and_partitions(run: Run, store: TierStore) -> None:
    (topic,) = json.loads(run("list", store.location, "-o", "json").stdout)["topics"]
    assert topic["partition_count"] == 1
    assert topic["partitions"][0]["end_offset"] == Manifest.open(store, ORDERS).end_offset


def test_what_cannot_be_read_is_an_error_beside_the_others(run: Run, store: TierStore) -> None:
    put(store, ORDERS.manifest_key, b"x")
    put_records(store, TopicRecord("payments", bytes(16), 1, deleted_ms=5))
    result = run("list", store.location)
    assert result.exit_code == 1
    assert "Error: the manifest of orders-0" in result.stderr
    assert "2 topics" in result.stdout


def test_time_of_a_hostile_record_is_shown_as_a_number(run: Run, store: TierStore) -> None:
    manifest = Manifest.open(store, ORDERS)
    segments = [segment._replace(max_timestamp=2**63 - 1) for segment in manifest.segments()]
    manifest.rebuild(segments, 0)
    result = run("list", store.location, "--segments")
    assert (result.exit_code, str(2**63 - 1) in result.stdout) == (0, True), result.output
