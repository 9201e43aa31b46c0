"""The gate of clusters with a tier: seeds violate nothing, and a missing rule is found."""

import random
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.tests.simulation import cluster_simulation
from kqueue.tests.simulation.cluster_simulation import run_seeds, trace_of
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clusters import tiered_simulation_at_work
from kqueue.tests.simulation.tier_mutants import MUTANTS, first_seed
from kqueue.tests.simulation.tier_simulation import TierProfile, TierSimulation
from kqueue.tests.thorough import corners

SEEDS = 200
PARTS = 40
PAGE = Path(__file__).parents[3] / "docs" / "internals" / "replication.md"
FOUND_SOON = (
    "uncommitted_segments_are_copied",
    "a_claim_leaves_announced_copies",
    "a_segment_counts_before_its_object_is_there",
    "objects_are_deleted_before_the_manifest_says_so",
    "disks_lose_what_the_tier_lacks",
    "followers_restart_at_the_log_start",
    "the_log_start_is_raised_on_the_disk_only",
)
"""Mutants that the first seeds find; the others take up to some hundreds."""


@pytest.mark.parametrize("first", corners(range(0, SEEDS, SEEDS // PARTS)))
def test_no_seed_violates_an_invariant(first) -> None:
    seeds = range(first, first + SEEDS // PARTS)
    assert not [(seed, violated) for seed, violated in run_seeds(seeds, make=TierSimulation) if violated]


@pytest.mark.parametrize("name", corners(FOUND_SOON, "disks_lose_what_the_tier_lacks"))
def test_a_missing_rule_is_found(name) -> None:
    assert first_seed(name, range(20)) is not None


def test_all_mutants_that_are_found_soon_exist() -> None:
    assert set(FOUND_SOON) <= set(MUTANTS)


def test_a_seed_is_the_same_each_time() -> None:
    assert trace_of(3, 20, TierSimulation) == trace_of(3, 20, TierSimulation) != trace_of(4, 20, TierSimulation)


def test_profiles_are_valid_and_differ() -> None:
    profiles = [TierProfile.of(random.Random(seed)) for seed in range(200)]
    for flag in ("is_unclean", "has_retention", "deletes", "coordinates"):
        assert {getattr(profile, flag) for profile in profiles} == {False, True}
    assert len({profile.topics for profile in profiles}) > 4
    assert not any(profile.has_retention and profile.coordinates for profile in profiles)


def test_a_tier_that_gets_no_segment_is_found(monkeypatch) -> None:
    monkeypatch.setattr(cluster_simulation, "HEAL_STEPS_MAX", 60)
    with tiered_simulation_at_work() as simulation:
        key = simulation.keys()[0]
        simulation.faults.end = lambda: None
        for link in simulation.tier_links.values():
            link.is_away = True
        partition = simulation.leader_of(key)
        assert partition is not None
        for _ in range(10):
            simulation._work()
            simulation._advance(100)
        with pytest.raises(InvariantViolated, match="this does not come: t0-0 has all sealed segments in the tier"):
            simulation._heal()


def test_old_records_are_in_the_tier_only_and_are_read() -> None:
    with tiered_simulation_at_work() as simulation:
        partition = simulation.leader_of(simulation.keys()[0])
        assert partition is not None
        assert 0 == partition.log.start_offset < partition.log.local_start_offset


@pytest.mark.thorough
def test_the_command_tells_how_to_repeat_a_violation() -> None:
    with MUTANTS["disks_lose_what_the_tier_lacks"]():
        result = CliRunner().invoke(cluster_simulation.main, ["--tier", "--seeds", "10"])
    assert result.exit_code == 1
    _, _, command = result.output.partition("python -m kqueue.tests.simulation.cluster_simulation ")
    assert command.split()[:2] == ["--tier", "--seed"]
    with MUTANTS["disks_lose_what_the_tier_lacks"]():
        repeated = CliRunner().invoke(cluster_simulation.main, command.split())
    assert repeated.exit_code == 1
    assert "VIOLATED" in repeated.output


def test_the_page_has_the_number_of_seeds_and_the_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"^python -m kqueue.tests.simulation.cluster_simulation (--tier.*)$", text, re.MULTILINE)
    result = CliRunner().invoke(cluster_simulation.main, [*command.replace("100000", "1").split(), "--steps", "5"])
    assert result.exit_code == 0
    assert f"the default tests run {SEEDS // PARTS} seeds with a tier, `tox -m thorough` {SEEDS}." in text
