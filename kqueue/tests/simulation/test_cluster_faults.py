import pytest

from kqueue.tests.simulation.cluster_faults import LONG_MS, ClusterFaults
from kqueue.tests.simulation.cluster_simulation import ClusterSimulation
from kqueue.tests.simulation.simulated_clusters import run_for, simulation_at_work
from kqueue.tests.thorough import corners

KINDS = [kind.__name__ for _, kind in ClusterFaults(ClusterSimulation(0))._kinds]


def lines_of(simulation) -> list[str]:
    lines: list[str] = []
    simulation._trace = lines.append
    return lines


@pytest.mark.parametrize("kind", corners(KINDS, "_kill", "_lose_power", "_cut", "_pause", "_part", "_end_session"))
def test_each_fault_ends_by_itself(kind) -> None:
    simulation = simulation_at_work()
    lines = lines_of(simulation)
    resets = simulation.network._links.copy()
    getattr(simulation.faults, kind)(simulation.brokers[1])
    assert lines or simulation.brokers[1].storage.cut_at or simulation.network._links != resets
    run_for(simulation, 3 * LONG_MS)
    simulation.faults.end = lambda: None
    simulation._heal()


def test_all_kinds_are_drawn() -> None:
    simulation = simulation_at_work()
    drawn = set()
    simulation.faults._kinds = [
        (weight, lambda broker, kind=kind: drawn.add((kind.__name__, broker.number)))
        for weight, kind in simulation.faults._kinds
    ]
    for _ in range(1000):
        simulation.faults.one()
    assert drawn == {(kind, node) for kind in KINDS for node in simulation.brokers}


def test_the_end_of_all_faults_lets_every_broker_run() -> None:
    simulation = simulation_at_work()
    simulation.brokers[1].kill()
    simulation.brokers[2].pause()
    simulation.faults._part(simulation.brokers[3])
    simulation.faults._lose_store(simulation.brokers[3])
    simulation.faults.end()
    assert all(broker.process is not None or broker.wants_to_run for broker in simulation.brokers.values())
    assert not simulation.brokers[2].is_paused
    assert not simulation.network.cuts
    assert not simulation.process_of(3).link.is_away
