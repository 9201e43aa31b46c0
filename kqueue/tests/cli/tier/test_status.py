from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

import kqueue
from kqueue.admin.tier_status import PartitionTierStatus
from kqueue.cli.tier import status as module
from kqueue.client import TopicPartition
from kqueue.tests.cli.tier.conftest import Run
from kqueue.tests.waits import eventually
from kqueue.tier.catalog import topics_named
from kqueue.tier.formats.keys import TieredPartition
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.folder import FolderTierStore


@pytest.fixture(scope="module")
def tier(tmp_path_factory: pytest.TempPathFactory) -> TierStore:
    return FolderTierStore.of_path(str(tmp_path_factory.mktemp("tier")))


@pytest.fixture(scope="module")
def broker(tier: TierStore) -> Iterator[kqueue.Broker]:
    settings = {
        "remote.log.storage.system.enable": True,
        "kqueue.tier.url": tier.location,
        "remote.log.manager.task.interval.ms": 20,
    }
    with kqueue.Broker(settings=settings) as broker:
        broker.create_topic("orders", remote_storage_enable=True, segment_bytes=1 << 20)
        broker.create_topic("plain")
        for _ in range(3):
            broker.topics["orders"].produce_all([b"x" * 400_000] * 2)
        yield broker


def row(run: Run, broker: kqueue.Broker, *args: str) -> list[str]:
    """Return the cells of the partition's row."""
    result = run("status", *args, "-b", broker.bootstrap)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[1].split()


def test_partitions_of_tiered_topics_are_shown(run: Run, broker: kqueue.Broker, tier: TierStore) -> None:
    eventually(lambda: row(run, broker)[4] not in ("-", "0"), "the first copy")
    name, leader, log_start, local_start, tiered_end, end, lag, in_tier = row(run, broker, "--tier", tier.location)
    assert (name, leader, log_start, local_start, end) == ("orders-0", "1", "0", "0", "6")
    assert int(tiered_end) + int(lag) == 6
    assert int(in_tier) >= int(tiered_end)


def test_json_has_brokers_settings_and_partitions(run: Run, broker: kqueue.Broker, tier: TierStore) -> None:
    result = run("status", "orders", "--tier", tier.location, "--json", "-b", broker.bootstrap)
    found = json.loads(result.stdout)
    assert found["brokers"] == [{"id": 1, "enabled": True, "url": tier.location}]
    assert found["topics"][0]["configs"]["remote.storage.enable"] == "true"
    assert (found["partitions"][0]["topic"], found["problems"]) == ("orders", [])


def test_topic_that_is_not_tiered_is_an_error_if_it_is_named(run: Run, broker: kqueue.Broker) -> None:
    result = run("status", "plain", "-b", broker.bootstrap)
    assert (result.exit_code, "topic plain is not tiered" in result.stderr) == (1, True), result.output
    with kqueue.Broker() as empty:
        result = run("status", "-b", empty.bootstrap)
        assert (result.exit_code, "No topic is tiered" in result.stdout) == (0, True), result.output


def test_tier_that_lacks_what_was_copied_is_an_error(run: Run, broker: kqueue.Broker, tier: TierStore) -> None:
    eventually(lambda: row(run, broker)[4] not in ("-", "0"), "the first copy")
    key = TieredPartition("orders", topics_named(tier, "orders")[0].topic_id, 0).manifest_key
    body = tier.get(key, max_bytes=1 << 20).body
    tier.delete([key])
    result = run("status", "--tier", tier.location, "-b", broker.bootstrap)
    tier.put(key, (body,), len(body))
    assert (result.exit_code, "has no manifest" in result.stderr) == (1, True), result.output


def test_offsets_between_the_end_of_the_tier_and_the_disk_are_a_problem() -> None:
    orders = TopicPartition("orders", 0)
    status = PartitionTierStatus(orders, 1, log_start=0, local_start=18, tiered_end=None, end=20)
    assert module._problems([status], {orders: 9}) == [
        "orders-0: the tier ends at 9, and the disk of the leader begins at 18: 9 offsets between are lost"
    ]
    for whole in (status._replace(log_start=18), status._replace(local_start=9), status._replace(local_start=0)):
        assert module._problems([whole], {orders: 9}) == []


def test_brokers_that_differ_are_problems() -> None:
    assert module._problems_of_brokers({1: "s3://a", 2: None, 3: "s3://b"}) == [
        "broker 2 has tiered storage disabled",
        "brokers have 2 URLs as kqueue.tier.url, which must be one",
    ]
