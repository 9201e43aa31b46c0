"""Clusters in simulation, at work, for tests of what checks and disturbs them."""

from kqueue.tests.simulation.cluster_simulation import ClusterSimulation


def simulation_at_work(*, coordinates=True) -> ClusterSimulation:
    """A cluster of which all brokers are up, with committed records. Nothing has failed."""
    simulation = ClusterSimulation(2)
    simulation.profile = simulation.profile._replace(faults=0.0, store_failures=0.0, coordinates=coordinates)
    simulation.run(20)
    return simulation


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
