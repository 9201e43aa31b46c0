"""Reading for share groups: batches by their headers, whole batches out."""

from __future__ import annotations

from kqueue.broker.share.share_headers import read_headers
from kqueue.broker.share.share_reader import ShareReader
from kqueue.share.share_partition import AcquireLimits
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.share_client import earliest, fill, give_states


def test_only_the_batches_with_acquired_records_are_sent() -> None:
    client = SimulatedClient()
    topic = client.sim.topic("t")
    earliest(client)
    fill(client, 2, 2, 2)
    broker = client.sim.broker
    key = (topic.id, 0)
    give_states(client, "g", ["t"])
    broker.share.open("g", *key)
    client.sim.settle()
    size = broker.topics.partition("t", 0).read(0, 1 << 20).fetched.region.size  # type: ignore[union-attr]
    reader = ShareReader(broker.share, broker.topics, "g", "m")
    for first in (0, 2, 4):
        result = reader.read([key], 1 << 20)
        [read] = result.read.results
        headers = read_headers(read.read.fetched.region, 2, may_block=False)  # type: ignore[union-attr,arg-type]
        assert headers is not None
        records = reader.acquire(result.opened[key], read, headers, AcquireLimits(2))
        assert records.ranges == [(first, first + 1, 1)]
        assert len(records.data) == size // 3
    result = reader.read([key], 1 << 20)
    assert not result.read.size
