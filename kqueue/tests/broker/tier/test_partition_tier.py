from __future__ import annotations

from kqueue.tests.broker.tier.test_tier_reads import tiered


def test_reads_see_what_the_leader_has_written_and_hold_up_no_change() -> None:
    client = tiered(10)
    partition = client.sim.broker.topics.get("t").partition(0)
    state = client.state(partition)
    assert state.is_claimed
    assert state.view is not state.manifest
    assert state.view.root is state.manifest.root
    assert "t-0" in repr(state)
    client.sim.broker.replicas.host.sole_replica.begin_epoch(partition.leader_epoch + 1)
    assert not state.is_claimed, "a claim holds for its leader epoch"
