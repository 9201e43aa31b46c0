import pytest

from kqueue.tests.simulation.cluster_faults import LONG_MS
from kqueue.tests.simulation.simulated_clusters import run_for, tiered_simulation_at_work
from kqueue.tests.simulation.tier_faults import TieredFaults
from kqueue.tests.thorough import corners

KINDS = ("_lose_tier", "_lose_tier_everywhere", "_slow_tier", "_lose_disk", "_become_a_zombie", "_lead_alone")


@pytest.mark.parametrize("kind", corners(KINDS, "_lose_disk"))
def test_each_fault_ends_by_itself(kind) -> None:
    with tiered_simulation_at_work(steps=10) as simulation:
        lines: list[str] = []
        simulation._trace = lines.append
        getattr(simulation.faults, kind)(simulation.brokers[1])
        assert lines
        run_for(simulation, 3 * LONG_MS)
        simulation.faults.end = lambda: None
        simulation._heal()


def test_all_kinds_are_drawn() -> None:
    with tiered_simulation_at_work(steps=1) as simulation:
        drawn = set()
        simulation.faults._kinds = [
            (weight, lambda broker, kind=kind: drawn.add(kind.__name__)) for weight, kind in simulation.faults._kinds
        ]
        for _ in range(500):
            simulation.faults.one()
        assert drawn >= {*KINDS, "_kill", "_fill_disk"}


def test_the_end_of_all_faults_mends_the_store() -> None:
    with tiered_simulation_at_work(steps=1) as simulation:
        faults = TieredFaults(simulation)
        faults._lose_tier_everywhere(simulation.brokers[1])
        faults._slow_tier(simulation.brokers[2])
        faults.end()
        assert not any(link.is_away or link.is_slow for link in simulation.tier_links.values())
        assert not simulation.is_tier_away
