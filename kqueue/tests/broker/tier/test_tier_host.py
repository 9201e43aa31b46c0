from __future__ import annotations

from kqueue.broker.tier.tier_host import AHEAD_QUEUED_MAX
from kqueue.tests.broker.tier.test_tier_reads import tiered
from kqueue.tests.broker.tier.tiered_brokers import TieredClient


def test_kinds_of_jobs_have_threads_of_their_own_beside_those_of_disks() -> None:
    client = tiered(6)
    client.sim.jobs.held = "tier reads"
    client.read(0)
    client.fill(6, start=6)
    client.tick()
    assert client.sim.broker.topics.get("t").partition(0).log.tiered_end == 10, "copies go on while reads hang"
    client.sim.jobs.release()
    client.sim.jobs.held = "tier copies"
    client.fill(6, start=12)
    client.tick()
    assert client.read_all() == [b"v%d" % number for number in range(18)], "reads go on while copies hang"


def test_object_ids_are_random_and_of_one_width() -> None:
    host = TieredClient().tier.host
    ids = {host.object_id() for _ in range(100)}
    assert len(ids) == 100
    assert {len(each) for each in ids} == {32}


def test_what_is_read_ahead_is_bounded() -> None:
    client, ran = TieredClient(), []
    host = client.tier.host
    client.sim.jobs.held = "tier ahead"
    for number in range(100):
        host._read_ahead(lambda number=number: ran.append(number))  # type: ignore[misc]
    client.sim.settle()
    client.sim.jobs.release()
    client.sim.settle()
    assert AHEAD_QUEUED_MAX <= len(ran) <= AHEAD_QUEUED_MAX + 2
