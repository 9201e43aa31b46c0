"""The gate of replication: thousands of seeds violate nothing, and a missing rule is found."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from kqueue.tests.simulation import replication_model
from kqueue.tests.simulation.replication_model import ReplicationModel, trace, violations
from kqueue.tests.simulation.replication_mutants import MUTANTS
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

SEEDS = 6000
PARTS = 24
PAGE = Path(__file__).parents[3] / "docs" / "internals" / "replication.md"
FIRST_SEEDS = {
    "rule_01_unclean_brokers_stay_eligible": 3,
    "rule_01_a_second_start_hides_the_first": 7577,
    "rule_02_unfenced_before_it_left_the_sets": 3,
    "rule_04_any_replica_is_elected": 16,
    "rule_06_eligible_though_others_commit": 0,
    "rule_06_commits_while_others_are_eligible": 16,
    "rule_09_the_epoch_stays_where_a_replica_leaves": 18234,
    "rule_07_any_partition_epoch_is_accepted": 515,
    "rule_09_followers_are_remembered": 162,
    "rule_10_a_follower_truncates_to_its_high_watermark": 0,
    "rule_15_any_leader_epoch_is_answered": 4420,
    "rule_15_an_older_broker_epoch_is_recorded": 33685,
    "rule_16_logs_are_not_compared": 1,
    "rule_18_any_answer_is_accepted": 295,
    "rule_18_not_compared_by_epoch": 295,
    "rule_19_truncates_to_the_leaders_end_only": 70,
    "rule_21_followers_do_not_flush": 18,
    "rule_21_the_leader_counts_what_is_not_flushed": 62,
    "rule_22_commits_below_the_minimum": 0,
    "rule_22_commits_what_some_have": 0,
    "rule_25_joins_below_the_start_of_the_epoch": 322,
    "rule_25_joins_below_the_high_watermark": 3,
    "rule_26_new_members_count_when_they_are_in": 13,
    "rule_27_any_broker_epoch_is_added": 5059,
    "rule_28_rolls_back_what_may_still_come": 13,
    "a_fenced_broker_leads": 3,
}
"""By mutant: the first seed; `python -m kqueue.tests.simulation.replication_mutants` finds it."""


@pytest.mark.parametrize("first", corners(range(0, SEEDS, SEEDS // PARTS)))
def test_no_seed_violates_an_invariant(first) -> None:
    violations_seen = [
        (seed, violated) for seed, violated in violations(range(first, first + SEEDS // PARTS)) if violated
    ]
    assert not violations_seen


@pytest.mark.parametrize("name", corners(MUTANTS, *list(MUTANTS)[:2]))
def test_a_missing_rule_is_found(name) -> None:
    """From a bit before the seed that is known to find it: the model may change a little."""
    first = max(0, FIRST_SEEDS[name] - 20)
    seed_found = next(
        (seed for seed, violated in violations(range(first, first + 2000), model=MUTANTS[name]()) if violated), None
    )
    assert seed_found is not None


def test_a_seed_is_the_same_each_time() -> None:
    assert trace(3) == trace(3) != trace(4)


def model_at_work() -> ReplicationModel:
    """A model in which records are committed, all brokers are up, and all replicas in sync."""
    model = ReplicationModel(0)
    for seed in range(100):
        model = ReplicationModel(seed)
        for _ in range(100):
            model.step()
        model.heal()
        if len(model.committed) > 3 and not model.ended:
            return model
    raise AssertionError("no seed commits anything")


def lose_a_committed_record(model) -> None:
    model.nodes[1].truncate(len(model.committed) - 1)


def write_another_record(model) -> None:
    model.nodes[2].log[1] += 1


def raise_the_high_watermark(model) -> None:
    model.nodes[0].high_watermark += 1


def count_a_member_less(model) -> None:
    leader = model.nodes[model.partition.leader].leader
    leader.maximal_isr = frozenset({model.partition.leader})


def lose_all_copies(model) -> None:
    model.put_partition(
        model.partition._replace(isr=(), leader=-1, partition_epoch=model.partition.partition_epoch + 1)
    )
    for node in model.nodes:
        node.truncate(0)


@for_each(
    "harm, message",
    [
        (lose_a_committed_record, "lacks committed records"),
        (write_another_record, "committed records of broker 2 differ"),
        (raise_the_high_watermark, "beyond its log"),
        (count_a_member_less, "not counted"),
        (lose_all_copies, "committed records are nowhere"),
    ],
)
def test_each_invariant_is_checked(harm, message) -> None:
    model = model_at_work()
    model.check()
    harm(model)
    with pytest.raises(InvariantViolated, match=message):
        model.check()


def test_replicas_that_stay_apart_are_found() -> None:
    model = model_at_work()
    model.fetch = lambda node: None
    model.start(model.nodes[0])
    with pytest.raises(InvariantViolated, match="do not come together"):
        model.heal()


def test_the_command_counts_the_seeds() -> None:
    result = CliRunner().invoke(replication_model.main, ["--seeds", "30", "--steps", "50"])
    assert result.exit_code == 0
    assert "30 seeds of 50 steps: no invariant was violated" in result.output


def test_the_command_prints_the_trace_of_a_violation(monkeypatch) -> None:
    mutant = MUTANTS["rule_22_commits_below_the_minimum"]()
    monkeypatch.setattr(ReplicationModel, "leader_class", mutant.leader_class)
    result = CliRunner().invoke(replication_model.main, ["--seeds", "200"])
    assert result.exit_code == 1
    assert "VIOLATED" in result.output
    assert "--seeds 1 --steps 400" in result.output
    assert "high watermark" in result.output


def test_the_page_has_the_seeds_and_the_command() -> None:
    text = PAGE.read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([a-z][^|]*) \| ([\d,]+) \|$", text, re.MULTILINE)
    names = {
        re.sub(r"^rule_0?(\d+)_", r"rule \1: ", name).replace("_", " "): seed for name, seed in FIRST_SEEDS.items()
    }
    assert {name: int(seed.replace(",", "")) for name, seed in rows} == names
    (command,) = re.findall(r"^python -m kqueue.tests.simulation.replication_model (.*)$", text, re.MULTILINE)
    result = CliRunner().invoke(replication_model.main, command.replace("100000", "20").split())
    assert result.exit_code == 0
    assert f"The default tests run {SEEDS // PARTS} seeds, `tox -m thorough` {SEEDS:,}." in " ".join(text.split())
