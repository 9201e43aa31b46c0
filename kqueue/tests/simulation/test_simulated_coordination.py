import pytest

from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clusters import run_for, simulation_at_work
from kqueue.tests.simulation.simulated_coordination import Bank, BankReader, GroupCommitter, Outcome, check_bank


@pytest.fixture
def simulation():
    return simulation_at_work(coordinates=False)


def transferred(simulation, commits) -> tuple[Bank, BankReader]:
    """A bank after five transactions, and who has read them."""
    source, target = simulation.keys()[:2]
    bank, reader = Bank(simulation, 21), BankReader(simulation, 22)
    for _ in range(200):
        if len(bank.outcomes) < 5 or not bank.is_idle:
            bank.transfer(source, target, commits=commits)
        run_for(simulation, 20)
    for _ in range(20):
        reader.read(source)
        reader.read(target)
        run_for(simulation, 50)
    return bank, reader


@pytest.mark.parametrize(("commits", "outcome"), [(True, Outcome.COMMITTED), (False, Outcome.ABORTED)])
def test_a_bank_knows_what_was_committed_and_a_reader_sees_it(simulation, commits, outcome) -> None:
    bank, reader = transferred(simulation, commits)
    assert bank.outcomes == [outcome] * 5
    assert sorted(reader.seen) == (list(range(5)) if commits else [])
    check_bank(bank, reader, simulation.invariants.histories)


def test_half_a_transaction_is_found(simulation) -> None:
    bank, reader = transferred(simulation, True)
    reader.seen[2].popitem()
    with pytest.raises(InvariantViolated, match="transaction 2 of .* is committed, and read as"):
        check_bank(bank, reader, simulation.invariants.histories)
    bank.outcomes[2] = Outcome.UNKNOWN
    with pytest.raises(InvariantViolated, match="transaction 2 of .* is maybe committed, and read as"):
        check_bank(bank, reader, simulation.invariants.histories)
    reader.seen[2].clear()
    check_bank(bank, reader, simulation.invariants.histories)


def test_reading_an_aborted_transaction_is_a_violation(simulation) -> None:
    bank, reader = transferred(simulation, True)
    bank.outcomes[4] = Outcome.ABORTED
    with pytest.raises(InvariantViolated, match="transaction 4 of .* is aborted, and read as"):
        check_bank(bank, reader, simulation.invariants.histories)


def test_a_group_reads_its_offset_back_and_an_older_one_is_found(simulation) -> None:
    group = GroupCommitter(simulation, 23, simulation._offsets_log)
    key = simulation.keys()[0]
    for _ in range(50):
        group.commit("t0", key)
        run_for(simulation, 20)
    run_for(simulation, 500)
    assert group.confirmed == group.sent > 5
    assert not group.is_checked
    group.check("t0", key)
    run_for(simulation, 500)
    assert group.is_checked
    group.sent = group.confirmed = group.confirmed + 1
    group.check("t0", key)
    with pytest.raises(InvariantViolated, match="the group's offset is"):
        run_for(simulation, 500)
