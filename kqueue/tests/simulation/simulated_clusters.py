"""Clusters in simulation, at work, for tests of what checks and disturbs them."""

import contextlib
from collections.abc import Iterator

from kqueue.tests.simulation.cluster_simulation import ClusterSimulation
from kqueue.tests.simulation.simulated_tier import TierFaults
from kqueue.tests.simulation.tier_simulation import TierSimulation
from kqueue.tests.simulation.tiered_brokers import simulated_stores


def simulation_at_work(*, coordinates=True) -> ClusterSimulation:
    """A cluster of which all brokers are up, with committed records. Nothing has failed."""
    simulation = ClusterSimulation(2)
    simulation.profile = simulation.profile._replace(faults=0.0, store_failures=0.0, coordinates=coordinates)
    simulation.run(20)
    return simulation


@contextlib.contextmanager
def tiered_simulation_at_work(*, steps: int = 25) -> Iterator[TierSimulation]:
    """A cluster with a tiered topic, of which some segments are in the tier only."""
    simulation = TierSimulation(6)  # without retention, deletions and unclean elections
    topics = ((1, 3, 2),)
    settings = {**simulation.tier_profile.settings, "local.retention.bytes": "1", "segment.bytes": "200"}
    simulation.tier_profile = simulation.tier_profile._replace(settings=settings)
    simulation.tier_faults = TierFaults()
    simulation.profile = simulation.profile._replace(topics=topics, faults=0.0, store_failures=0.0, coordinates=False)
    with simulated_stores(simulation), contextlib.closing(simulation):
        ClusterSimulation.run(simulation, steps)
        yield simulation


def replica(simulation, *, of_leader):
    """The replica of the first partition at its leader, or at another broker; and its process."""
    key = simulation.keys()[0]
    leader = simulation.invariants.histories[key].registration.leader
    node = leader if of_leader else next(node for node in simulation.brokers if node != leader)
    process = simulation.process_of(node)
    return process, process.broker.topics.find_by_id(key[0]).partitions[key[1]]


def history(simulation):
    """What is known of the first partition."""
    return simulation.invariants.histories[simulation.keys()[0]]


def run_for(simulation, ms: float) -> None:
    simulation.queue.run_until(simulation.queue.now_ms + ms)
