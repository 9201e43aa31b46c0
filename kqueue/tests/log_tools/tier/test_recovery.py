from __future__ import annotations

import pytest

from kqueue.log_tools.tier.recovery import GUESSED_CONFIGS, plan_recovery, producer_ids, rebuild_manifests
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tests.tier.tiers import SETTINGS, copied_by_next_leader, copied_log, put, put_records
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.formats.topic_record import TopicRecord
from kqueue.tier.manifest import Manifest
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.memory import MemoryTierStore

OTHER_ID = bytes(15) + b"\1"


@pytest.fixture
def store() -> TierStore:
    store = MemoryTierStore()
    put_records(store, TopicRecord("orders", ORDERS.topic_id, 2, 3, SETTINGS, created_ms=1000))
    copied_by_next_leader(store, copied_log(store))
    return store


def test_plan_has_what_the_record_and_the_manifest_say(store: TierStore) -> None:
    (plan,) = plan_recovery(store)
    assert (plan.configs, plan.replication_factor, plan.skipped, plan.problems) == (SETTINGS, 3, "", [])
    first, second = plan.partitions
    manifest = Manifest.open(store, ORDERS)
    assert (first.start_offset, first.end_offset, first.leader_epoch) == (0, manifest.end_offset, 2)
    assert (first.problems, first.gaps, first.rebuilt) == ([], [], None)
    assert (second.start_offset, second.end_offset, second.leader_epoch) == (0, 0, 0)
    assert (second.problems, second.rebuilt) == ([], None)


def test_leader_epoch_is_above_that_of_a_claim_without_copies(store: TierStore) -> None:
    Manifest.open(store, ORDERS).claim(41, None)
    assert plan_recovery(store)[0].partitions[0].leader_epoch == 42


def test_lost_or_damaged_manifest_is_made_again(store: TierStore) -> None:
    end = Manifest.open(store, ORDERS).end_offset
    put(store, ORDERS.manifest_key, b"x")
    plans = plan_recovery(store)
    partition = plans[0].partitions[0]
    assert (partition.end_offset, partition.leader_epoch) == (end, 2)
    assert "is made again from" in partition.problems[0]
    assert rebuild_manifests(store, plans) == 1
    assert Manifest.open(store, ORDERS).end_offset == end
    assert plan_recovery(store)[0].partitions[0].problems == []
    assert rebuild_manifests(store, plan_recovery(store)) == 0


def test_lost_and_damaged_segments_and_gaps_are_problems(store: TierStore) -> None:
    segments = list(Manifest.open(store, ORDERS).segments())
    store.delete([segments[1].key(ORDERS)])
    put(store, segments[2].key(ORDERS), b"short")
    first, second = plan_recovery(store)[0].partitions[0].problems
    assert f"offsets {segments[1].start_offset} to {segments[1].end_offset - 1} are lost" in first
    assert f"offsets {segments[2].start_offset} to {segments[2].end_offset - 1} can't be read" in second
    store.delete([ORDERS.manifest_key])
    partition = plan_recovery(store)[0].partitions[0]
    assert partition.gaps == [(segments[0].end_offset, segments[3].start_offset)]
    assert any("are missing" in problem for problem in partition.problems)
    assert any("no segment object" in problem for problem in partition.problems)


def test_topic_without_record_keeps_all_its_records(store: TierStore) -> None:
    store.delete([TopicRecord("orders", ORDERS.topic_id, 1).key])
    copied_log(store, partition=TieredPartition("orders", ORDERS.topic_id, 4))
    (plan,) = plan_recovery(store)
    assert (plan.configs, plan.replication_factor, len(plan.partitions)) == (GUESSED_CONFIGS, None, 5)
    assert "settings are unknown" in plan.problems[0]


def test_objects_of_more_partitions_than_the_record_says_are_recovered_too(store: TierStore) -> None:
    copied_log(store, partition=TieredPartition("orders", ORDERS.topic_id, 3))
    (plan,) = plan_recovery(store)
    assert len(plan.partitions) == 4
    assert "there are objects of 3" in plan.problems[0]


def test_settings_that_a_broker_refuses_are_left_out(store: TierStore) -> None:
    refused = {"segment.bytes": "too small"}
    (plan,) = plan_recovery(store, check_setting=lambda name, value: refused.get(name))
    assert plan.configs == {"remote.storage.enable": "true"}
    assert plan.problems == ["a setting is left out: too small"]


def test_topics_that_are_deleted_older_internal_or_not_tiered_are_left_out(store: TierStore) -> None:
    put_records(store, TopicRecord("orders", OTHER_ID, 1, 1, SETTINGS, created_ms=10))
    put_records(store, TopicRecord("gone", OTHER_ID, 1, 1, SETTINGS, deleted_ms=5))
    put_records(store, TopicRecord("plain", OTHER_ID, 1, 1, {"remote.storage.enable": "false"}))
    put_records(store, TopicRecord("__consumer_offsets", OTHER_ID, 1, 1, SETTINGS))
    found = [(plan.topic.topic, plan.topic.topic_id == OTHER_ID, bool(plan.skipped)) for plan in plan_recovery(store)]
    assert sorted(found) == [
        ("__consumer_offsets", True, True),
        ("gone", True, True),
        ("orders", False, False),
        ("orders", True, True),
        ("plain", True, True),
    ]
    assert [plan.topic.topic for plan in plan_recovery(store, ["gone"])] == ["gone"]


def test_producer_ids_are_those_at_the_ends_of_partitions(store: TierStore) -> None:
    (plan,) = plan_recovery(store)
    assert producer_ids(store, plan.partitions) == (7, 7)
    assert producer_ids(store, plan.partitions[1:]) is None


def test_progress_counts_partitions(store: TierStore) -> None:
    counts: list[tuple[int, int]] = []
    (plan,) = plan_recovery(store, progress=lambda done, total: counts.append((done, total)))
    producer_ids(store, plan.partitions, progress=lambda done, total: counts.append((done, total)))
    assert counts == [(1, 2), (2, 2)] * 2


def test_json_has_what_is_missing(store: TierStore) -> None:
    values = plan_recovery(store)[0].as_json()
    assert (values["topic"], values["skipped"]) == ("orders", None)
    assert values["partitions"][0]["rebuilt"] is False
