"""Share groups whose records are in the tier."""

from __future__ import annotations

from kqueue.records.any_format import iter_any_records
from kqueue.tests.api.fetch_client import append, end_transaction, transaction
from kqueue.tests.api.share_client import ACCEPT, Member, acquired, data_of, earliest
from kqueue.tests.broker.tier.tiered_brokers import TieredClient
from kqueue.tier.errors import TierUnavailable
from kqueue.wire.error_codes import ErrorCode


def shared(count: int = 20) -> TieredClient:
    client = TieredClient()
    client.topic()
    client.fill(count)
    client.tick()
    earliest(client)
    return client


def test_member_acquires_records_of_the_tier_and_then_those_that_are_here() -> None:
    client = shared()
    member, offsets = Member(client), []
    for _ in range(40):
        response = member.fetch()
        if response is None:
            client.sim.settle()
            continue
        for first, last, _count in acquired(response):
            offsets += range(first, last + 1)
            data = data_of(response)
            assert isinstance(data.records, (bytes, memoryview, bytearray))
            assert next(iter_any_records(bytes(data.records))).offset <= first
            member.acknowledge((first, last, ACCEPT))
    assert offsets == list(range(20))


def test_slow_tier_gives_no_records_and_the_next_fetch_has_them() -> None:
    client = shared()
    member = Member(client)
    client.sim.jobs.held = "tier reads"
    waiting = member.start(max_wait_ms=0)
    client.sim.settle()
    client.sim.advance(500)
    assert acquired(waiting.response) == []
    client.sim.jobs.release()
    client.sim.settle()
    assert acquired(member.fetch())[0][0] == 0


def test_failing_tier_is_an_error_of_the_partition() -> None:
    client = shared()
    client.store.error = TierUnavailable("no route")
    assert data_of(Member(client).fetch()).error_code == ErrorCode.KAFKA_STORAGE_ERROR


def test_aborted_records_of_the_tier_are_not_delivered() -> None:
    client = TieredClient()
    client.topic()
    append(client, transaction(b"aborted", producer=7))
    client.fill(3, start=1)
    end_transaction(client, 7, commits=False)
    client.fill(4, start=5)
    client.tick()
    earliest(client, share_isolation_level="read_committed")
    member, offsets = Member(client), []
    for _ in range(20):
        response = member.fetch()
        for first, last, _count in acquired(response) if response is not None else ():
            offsets += range(first, last + 1)
            member.acknowledge((first, last, ACCEPT))
    assert [offset for offset in offsets if offset != 4] == [1, 2, 3, 5, 6, 7, 8], "4 is the marker"
