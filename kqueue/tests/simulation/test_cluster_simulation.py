"""The gate of clusters: two hundred seeds of whole brokers violate nothing, and a missing rule is
found.
"""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.tests.simulation import cluster_simulation
from kqueue.tests.simulation.cluster_mutants import MUTANTS, first_seed
from kqueue.tests.simulation.cluster_simulation import run_seeds, trace_of
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clusters import simulation_at_work
from kqueue.tests.thorough import corners

SEEDS = 200
PAGE = Path(__file__).parents[3] / "docs" / "internals" / "replication.md"
PARTS = 40
FOUND_SOON = (
    "rule_03_a_fenced_broker_stays_in_sync",
    "rule_07_commits_compare_nothing",
    "rule_12_confirmed_before_it_is_committed",
    "rule_16_logs_are_not_compared",
    "rule_22_commits_what_some_have",
    "rule_23_consumers_read_what_is_not_committed",
    "a_failed_fetch_is_not_repeated",
    "repeated_batches_are_appended",
    "transactions_are_read_while_they_are_open",
    "coordinators_load_nothing",
)
"""Mutants that the first seeds find; the others take up to some thousands."""


@pytest.mark.parametrize("first", corners(range(0, SEEDS, SEEDS // PARTS)))
def test_no_seed_violates_an_invariant(first) -> None:
    violations = [(seed, violated) for seed, violated in run_seeds(range(first, first + SEEDS // PARTS)) if violated]
    assert not violations


@pytest.mark.parametrize("name", corners(FOUND_SOON, "rule_12_confirmed_before_it_is_committed"))
def test_a_missing_rule_is_found(name) -> None:
    assert first_seed(name, range(40)) is not None


def test_a_seed_is_the_same_each_time() -> None:
    assert trace_of(3) == trace_of(3) != trace_of(4)


def test_replicas_that_stay_apart_are_found() -> None:
    simulation = simulation_at_work()
    simulation.brokers[2].stop()
    simulation.faults.end = lambda: None
    with pytest.raises(InvariantViolated, match="this does not come: the replicas are equal"):
        simulation._heal()


def test_the_command_counts_the_seeds() -> None:
    result = CliRunner().invoke(cluster_simulation.main, ["--seeds", "3", "--steps", "10"])
    assert result.exit_code == 0
    assert "3 seeds of 10 steps: no invariant was violated" in result.output


@pytest.mark.thorough
def test_the_command_tells_how_to_repeat_a_violation() -> None:
    with MUTANTS["rule_22_commits_what_some_have"]():
        result = CliRunner().invoke(cluster_simulation.main, ["--seeds", "30"])
    assert result.exit_code == 1
    _, _, command = result.output.partition("python -m kqueue.tests.simulation.cluster_simulation ")
    assert command.split()[0] == "--seed"
    with MUTANTS["rule_22_commits_what_some_have"]():
        repeated = CliRunner().invoke(cluster_simulation.main, command.split())
    assert repeated.exit_code == 1
    assert "VIOLATED" in repeated.output
    assert "confirmed" in repeated.output


def test_the_page_has_the_number_of_seeds_and_the_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    commands = re.findall(r"^python -m kqueue.tests.simulation.cluster_simulation (.*)$", text, re.MULTILINE)
    (command,) = [command for command in commands if "--tier" not in command]
    result = CliRunner().invoke(cluster_simulation.main, [*command.replace("100000", "2").split(), "--steps", "5"])
    assert result.exit_code == 0
    assert f"the default tests run {SEEDS // PARTS} seeds, `tox -m thorough` {SEEDS}." in text
