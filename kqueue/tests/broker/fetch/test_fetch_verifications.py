"""A fetch of data that was on the disk before: checked first, then answered as ever; S4.1, S4.3."""

from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.broker.fetch.fetch_verifications import VERIFICATION_WAIT_MS
from kqueue.records.batch import iter_batches
from kqueue.tests.api.fetch_client import append, end_transaction, fetch, one, parts, request, transaction, values, want
from kqueue.tests.api.group_client import commit, committed
from kqueue.tests.api.harness import PendingRequest, SimulatedClient, batch, old_set, versions_of
from kqueue.wire.error_codes import ErrorCode

LOG = "t-0/00000000000000000000.log"


def restarted(client: SimulatedClient, **settings: Any) -> SimulatedClient:
    client.sim.stop()
    return SimulatedClient(sim=client.sim.restarted(lambda old: old.update(settings)))


def flip(client: SimulatedClient, path: str, position: int) -> None:
    data = bytearray(client.sim.storage.read(path))
    data[position] ^= 1
    client.sim.storage.write_atomic(path, bytes(data))


def waits(started: PendingRequest) -> bool:
    return started.response is None


@pytest.fixture
def client() -> SimulatedClient:
    """Three batches on the disk in each of two partitions, offsets 0 to 5."""
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t", 2, segment_bytes="200")
    for partition in (0, 1):
        for value in (b"a", b"b", b"c"):
            client.produce("t", batch(value, value), partition=partition)
    return restarted(client)


def hurt(client: SimulatedClient) -> SimulatedClient:
    """The same, with the middle batch of partition 0 damaged."""
    client.sim.stop()
    start = [position for position, _ in iter_batches(client.sim.storage.read(LOG))][1]
    flip(client, LOG, start + 70)
    return SimulatedClient(sim=client.sim.restarted())


@pytest.mark.parametrize("version", versions_of("fetch"))
def test_old_data_is_checked_and_then_served(client: SimulatedClient, version: int) -> None:
    started = client.start(request(client, version, want(), want(1)), version)
    assert waits(started)
    assert len(client.sim.jobs.pending) == 2
    client.sim.settle()
    assert [values(data)[:2] for data in parts(started.response)] == [[b"a", b"a"]] * 2
    again = client.start(request(client, version, want(), want(1)), version)
    assert again.response is not None
    assert parts(again.response) == parts(started.response)


def test_new_data_is_not_verified(client: SimulatedClient) -> None:
    fetch(client, 11, want(), want(1))
    client.produce("t", batch(b"new"))
    started = client.start(request(client, 11, want(offset=6)), 11)
    assert values(one(started.response)) == [b"new"]


def test_nothing_is_verified_when_verification_is_off(client: SimulatedClient) -> None:
    client = restarted(client, **{"kqueue.verify.reads": False})
    assert values(one(client.start(request(client, 11, want()), 11).response))[:2] == [b"a", b"a"]


@pytest.mark.parametrize("version", versions_of("fetch"))
def test_damage_is_reported_only_for_its_partition(client: SimulatedClient, version: int) -> None:
    client = hurt(client)
    first = [values(data) for data in parts(fetch(client, version, want(), want(1)))]
    assert first[0] == [b"a", b"a"]
    damaged, undamaged = parts(fetch(client, version, want(offset=2), want(1)))
    assert (damaged.error_code, damaged.records or b"", undamaged.error_code) == (ErrorCode.CORRUPT_MESSAGE, b"", 0)
    assert values(undamaged)[:2] == [b"a", b"a"]
    (damage,) = client.sim.broker.topics.partition("t", 0).log.damage
    assert LOG in str(damage)


def test_a_client_that_skips_the_damage_continues(client: SimulatedClient) -> None:
    client = hurt(client)
    assert one(fetch(client, 11, want(offset=3))).error_code == ErrorCode.CORRUPT_MESSAGE
    assert values(one(fetch(client, 11, want(offset=4)))) == [b"c", b"c"]
    client.produce("t", batch(b"d"))
    assert values(one(fetch(client, 11, want(offset=6)))) == [b"d"]


def test_a_client_that_does_not_wait_gets_old_data(client: SimulatedClient) -> None:
    assert values(one(fetch(client, 11, want(), max_wait_ms=0)))[:2] == [b"a", b"a"]


def test_fetch_below_min_bytes_waits_max_wait_and_no_longer(client: SimulatedClient) -> None:
    started = client.start(request(client, 11, want(), max_wait_ms=500, min_bytes=1 << 20), 11)
    client.sim.advance(499)
    assert waits(started)
    client.sim.advance(1)
    assert values(one(started.response))[:2] == [b"a", b"a"]


def test_new_data_ends_the_wait_for_more(client: SimulatedClient) -> None:
    size = len(batch(b"a", b"a"))
    started = client.start(request(client, 11, want(offset=4), max_wait_ms=500, min_bytes=size + 1), 11)
    client.sim.settle()
    assert waits(started)
    client.produce("t", batch(b"new"))
    client.sim.settle()
    assert values(one(started.response)) == [b"c", b"c", b"new"]


def test_a_disk_that_takes_too_long_is_not_waited_for_without_end(client: SimulatedClient) -> None:
    started = client.start(request(client, 11, want(), max_wait_ms=500), 11)
    clock, timers = client.sim.clock, client.sim.broker.scheduler.timers
    clock.advance(VERIFICATION_WAIT_MS - 1)
    timers.run_due(clock.monotonic_ms())
    assert waits(started)
    clock.advance(1)
    timers.run_due(clock.monotonic_ms())
    data = one(started.response)
    assert (data.error_code, values(data), data.high_watermark) == (0, [], 6)
    client.sim.settle()
    assert values(one(client.start(request(client, 11, want()), 11).response))[:2] == [b"a", b"a"]


def test_a_disk_failure_is_reported(client: SimulatedClient) -> None:
    started = client.start(request(client, 11, want(), want(1)), 11)
    job = client.sim.jobs.pending.popleft()
    job.finish(None, StorageFailed("the disk fails"))
    client.sim.settle()
    failed, undamaged = parts(started.response)
    assert (failed.error_code, undamaged.error_code) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert values(one(fetch(client, 11, want())))[:2] == [b"a", b"a"]  # the next one tries again


def test_a_session_returns_damage_and_later_records(client: SimulatedClient) -> None:
    """S4.3: in a session too, whose responses hold only changes."""
    client = hurt(client)
    full = fetch(client, 11, want(), session_epoch=0)
    bad = fetch(client, 11, want(offset=2), session_id=full.session_id, session_epoch=1)
    assert one(bad).error_code == ErrorCode.CORRUPT_MESSAGE
    good = fetch(client, 11, want(offset=4), session_id=full.session_id, session_epoch=2)
    assert values(one(good)) == [b"c", b"c"]
    assert parts(fetch(client, 11, want(offset=6), session_id=full.session_id, session_epoch=3)) == []


def test_many_that_wait_share_one_check(client: SimulatedClient) -> None:
    started = [client.start(request(client, 11, want()), 11) for _ in range(5)]
    assert len(client.sim.jobs.pending) == 1
    client.sim.settle()
    assert all(values(one(each.response))[:2] == [b"a", b"a"] for each in started)


def test_records_of_a_transaction_are_verified_when_it_ends() -> None:
    """The last stable offset sets free what was on the disk before, while a fetch waits."""
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t")
    append(client, transaction(b"held", 7))
    client = restarted(client)
    started = client.start(request(client, 11, want(), max_wait_ms=5000, isolation_level=1), 11)
    client.sim.settle()
    assert waits(started)
    end_transaction(client, 7, commits=True)
    client.sim.settle()
    assert values(one(started.response))[0] == b"held"


def test_old_versions_are_not_given_what_is_damaged(client: SimulatedClient) -> None:
    """Down-converted, and through markers that old clients never see."""
    client = SimulatedClient({"kqueue.storage": "local"})
    client.sim.topic("t")
    end_transaction(client, 7, commits=True)
    client.produce("t", old_set(1, b"old"), version=2)
    client.produce("t", batch(b"new"))
    client = restarted(client)
    assert values(one(fetch(client, 2, want(size=90)))) == [b"old"]


def test_group_offsets_are_checked_when_they_are_loaded(caplog: pytest.LogCaptureFixture) -> None:
    """S4.5: a damaged commit is ignored; the ones before and after it are used."""
    client = SimulatedClient({"kqueue.storage": "local", "offsets.topic.num.partitions": 1})
    client.sim.topic("t")
    for offset in (1, 2):
        commit(client, {("t", 0): offset})
    client.sim.stop()
    path = "__consumer_offsets-0/00000000000000000000.log"
    starts = [position for position, _ in iter_batches(client.sim.storage.read(path))]
    flip(client, path, starts[-1] + 80)
    client = SimulatedClient(sim=client.sim.restarted())
    assert committed(client) == {("t", 0): 1}
    assert any("__consumer_offsets" in line and "lost" in line for line in caplog.messages)
