from __future__ import annotations

from kqueue.testing.simulation import Simulation
from kqueue.tests.broker.members import Members
from kqueue.tests.tables import for_each


@for_each(
    "storage, flush, expected",
    [
        ("local", "group", (True, False)),
        ("local", "kafka", (False, True)),
        ("memory", "group", (False, False)),
        ("memory", "kafka", (False, False)),
    ],
)
def test_only_what_is_on_disk_is_flushed(storage: str, flush: str, expected: tuple[bool, bool]) -> None:
    host = Simulation({"kqueue.storage": storage, "kqueue.flush": flush}).broker.replicas.host
    assert (host.flush_before_visible, host.flush_by_policy) == expected


def test_the_upkeep_of_replicas_serves_what_all_partitions_share() -> None:
    broker = Members(1)[1].broker
    assert broker.replicas.host.replicas is broker.replicas
    assert broker.replicas.host.node_id == broker.identity.node_id
