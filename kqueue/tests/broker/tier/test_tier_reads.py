"""Fetches of what only the tier has: slow, failing, bounded and damaged stores."""

from __future__ import annotations

from typing import Any

from kqueue.broker.tier.tier_reads import ERROR_KEPT_MS
from kqueue.records.batch import iter_batches
from kqueue.tests.api.fetch_client import append, end_transaction, one, parts, request, transaction, values, want
from kqueue.tests.api.harness import batch
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tests.tables import for_each
from kqueue.tier.errors import TierDenied, TierUnavailable
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

WAIT_MS = 500


def tiered(count: int = 20, **configs: str) -> TieredClient:
    client = TieredClient()
    client.topic(**configs)
    client.fill(count)
    client.tick()
    return client


def test_fetch_of_a_slow_tier_is_empty_after_its_wait_and_the_next_one_has_the_records() -> None:
    client = tiered()
    client.sim.jobs.held = "tier reads"
    started = client.start(request(client, 11, want(offset=2), max_wait_ms=0), 11)
    client.sim.settle()
    assert started.response is None
    client.sim.advance(WAIT_MS - 1)
    assert started.response is None
    client.sim.advance(1)
    assert (one(started.response).error_code, values(one(started.response))) == (0, [])
    assert client.sim.jobs.release() == 1
    client.sim.settle()
    again = client.start(request(client, 11, want(offset=2)), 11)
    assert values(one(again.response)) == [b"v2", b"v3"], "it is answered at once, without another read"
    assert client.tier.reads.requests == 1


def test_what_was_read_is_read_again_after_the_log_was_cut() -> None:
    client = tiered()
    partition = client.sim.broker.topics.get("t").partition(0)
    for _ in range(2):
        assert values(client.read(2)) == [b"v2", b"v3"]
    assert client.tier.reads.requests == 1
    partition.log_was_cut(partition.log)
    assert values(client.read(2)) == [b"v2", b"v3"]
    assert client.tier.reads.requests == 2


def test_slow_tier_holds_up_no_records_that_are_here() -> None:
    client = tiered()
    client.topic("local", remote_storage_enable="false")
    client.fill(1, "local")
    client.sim.jobs.held = "tier reads"
    both = request(client, 11, want(offset=2))
    both.topics += request(client, 11, want(offset=0), topic="local").topics
    started = client.start(both, 11)
    assert [values(data) for data in parts(started.response)] == [[], [b"v0"]]
    client.sim.jobs.release()
    client.sim.settle()
    started = client.start(both, 11)
    assert [values(data) for data in parts(started.response)] == [[b"v2", b"v3"], [b"v0"]]


def test_records_of_the_tier_are_answered_with_though_they_are_fewer_than_the_client_asked_for() -> None:
    client = tiered()
    started = client.start(request(client, 11, want(offset=2), min_bytes=1 << 20, max_wait_ms=60_000), 11)
    client.sim.settle()
    assert values(one(started.response)) == [b"v2", b"v3"]
    again = client.start(request(client, 11, want(offset=2), min_bytes=1 << 20, max_wait_ms=60_000), 11)
    assert values(one(again.response)) == [b"v2", b"v3"]


@for_each("error", [TierUnavailable("503"), TierDenied("expired"), ValueError("a defect")])
def test_failing_tier_is_a_retriable_error_and_not_asked_for_each_client(error: Exception) -> None:
    client = tiered()
    client.store.error = error
    calls = len(client.store.calls)
    for _ in range(5):
        assert client.read(4).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(client.store.calls) == calls + 1
    client.store.error = None
    client.sim.clock.advance(ERROR_KEPT_MS)
    assert values(client.read(4)) == [b"v4", b"v5"]


def test_reads_that_wait_are_bounded_and_the_others_ask_again() -> None:
    client = tiered(40)
    client.tier.reads._config.set_dynamic(*dynamic({"remote.log.reader.threads": 1}))
    client.sim.jobs.held = "tier reads"
    queued = client.sim.broker.config["remote.log.reader.max.pending.tasks"]
    for offset in range(36):
        client.start(request(client, 11, want(offset=offset)), 11)
    assert client.tier.reads.requests == 36
    assert client.tier.reads.pool.running == 1
    assert client.tier.reads.pool.waiting == 35 < queued


def dynamic(values: dict[str, Any]) -> Any:
    from kqueue.base.config import ConfigSource

    return ConfigSource.DYNAMIC_DEFAULT_BROKER, values


def test_rate_of_reads_is_bounded() -> None:
    client = tiered()
    client.sim.broker.config.set_dynamic(*dynamic({"remote.log.manager.fetch.max.bytes.per.second": 100}))
    assert values(client.read(0)) == [b"v0", b"v1"]
    assert client.read(2) is None, "the fetch waits, and nothing is read"
    assert client.tier.reads.requests == 1
    client.sim.advance(1000)
    assert values(client.read(2)) == [b"v2", b"v3"]


def test_response_stays_within_the_bytes_that_the_client_asked_for() -> None:
    client = TieredClient()
    client.topic(segment_bytes="2000")
    client.fill(60)
    client.tick()
    sizes = [header.size for _, header in iter_batches(bytes(client.read(0).records))]
    assert len(sizes) > 3
    data = one(_fetched(client, want(offset=0, size=sum(sizes[:2]) + 1)))
    assert values(data) == [b"v0", b"v1"]
    assert values(one(_fetched(client, want(offset=0, size=1)))) == [b"v0"], "the first batch, however large"


def _fetched(client: TieredClient, wanted: Any) -> Any:
    started = client.start(request(client, 11, wanted), 11)
    client.sim.settle()
    return started.response


def test_damaged_object_is_a_clear_error_and_others_are_served() -> None:
    client = tiered()
    key = next(key for key in client.objects() if "/00000000000000000004-" in key)
    body = bytearray(client.store.store.get(key, max_bytes=1 << 20).body)
    body[40] ^= 1
    client.store.store.put(key, [bytes(body)], len(body))
    assert client.read(4).error_code == ErrorCode.CORRUPT_MESSAGE
    assert values(client.read(6)) == [b"v6", b"v7"]


def test_missing_object_is_an_error_and_not_a_gap() -> None:
    client = tiered()
    client.store.store.delete([next(key for key in client.objects() if "/00000000000000000004-" in key)])
    assert client.read(4).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert values(client.read(6)) == [b"v6", b"v7"]


def test_read_committed_consumer_gets_aborted_transactions_whose_markers_are_here() -> None:
    client = TieredClient()
    client.topic()
    append(client, transaction(b"aborted", producer=7))
    client.fill(3, start=1)
    end_transaction(client, 7, commits=False)
    client.tick()
    log = client.sim.broker.topics.get("t").partition(0).log
    assert 0 < log.local_start_offset <= 4
    data = client.read(0, isolation_level=1)
    assert [(each.producer_id, each.first_offset) for each in data.aborted_transactions] == [(7, 0)]
    assert client.read(0).aborted_transactions is None


def test_open_transaction_is_not_copied() -> None:
    client = TieredClient()
    client.topic()
    client.fill(4)
    append(client, transaction(b"open", producer=7))
    client.fill(10, start=5)
    client.tick()
    log = client.sim.broker.topics.get("t").partition(0).log
    assert log.tiered_end == 4
    end_transaction(client, 7, commits=True)
    client.tick()
    assert log.tiered_end > 10


def listed(client: TieredClient, timestamp: int, version: int = 11, **fields: Any) -> Any:
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=timestamp)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, **fields)
    started = client.start(request, version)
    client.sim.settle()
    return started.response and started.response.topics[0].partitions[0]


def test_special_timestamps_tell_tier_and_disk_apart() -> None:
    client = tiered()
    assert [listed(client, timestamp).offset for timestamp in (-1, -2, -4, -5, -6)] == [20, 0, 18, 17, 18]
    local = TieredClient()
    local.topic(remote_storage_enable="false")
    local.fill(5)
    assert [listed(local, timestamp).offset for timestamp in (-4, -5, -6)] == [0, -1, -1]
    assert listed(client, -4, version=8).offset == 18


def test_time_is_looked_up_in_the_tier_first() -> None:
    client = TieredClient()
    client.topic()
    begin_ms = client.sim.clock.wall_ms()
    for number in range(20):
        client.produce("t", batch(b"v", time_ms=begin_ms + 10 * number))
    client.tick()
    assert [listed(client, begin_ms + ms).offset for ms in (0, 31, 95, 180, 190)] == [0, 4, 10, 18, 19]
    assert listed(client, begin_ms + 191).offset == -1


def test_look_up_that_takes_too_long_times_out() -> None:
    client = tiered()
    client.sim.jobs.held = "tier reads"
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=1)
    topics = [ListOffsetsTopic(name="t", partitions=[partition])]
    ask = ListOffsetsRequest(replica_id=-1, isolation_level=0, topics=topics, timeout_ms=3000)
    started = client.start(ask, 10)
    client.sim.advance(2_999)
    assert not started.response
    client.sim.advance(1)
    assert started.response.topics[0].partitions[0].error_code == ErrorCode.REQUEST_TIMED_OUT
