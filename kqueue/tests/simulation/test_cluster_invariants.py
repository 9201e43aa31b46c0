import pytest

from kqueue.broker.replicas.replica import LeadingReplica
from kqueue.log.log_cut import LogCut
from kqueue.replication.registrations import BROKERS_PREFIX, TOPICS_PREFIX, TopicRegistration
from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clusters import history, replica, run_for, simulation_at_work
from kqueue.tests.tables import for_each


def raise_the_high_watermark(simulation):
    process, partition = replica(simulation, of_leader=False)
    partition.watermark.value = partition.log_end_offset + 1
    return process


def lower_the_high_watermark(simulation):
    process, partition = replica(simulation, of_leader=False)
    partition.watermark.value -= 1
    return process


def lead_without_an_election(simulation):
    process, partition = replica(simulation, of_leader=False)
    partition.replica = LeadingReplica(partition.replica.key)
    return process


def count_nobody(simulation):
    process, partition = replica(simulation, of_leader=True)
    partition.replica.leadership.maximal_isr = frozenset()
    return process


@for_each(
    "harm, message",
    [
        (raise_the_high_watermark, "beyond"),
        (lower_the_high_watermark, "falls from"),
        (lead_without_an_election, "lead in epoch"),
        (count_nobody, "not counted"),
    ],
)
def test_each_invariant_of_a_broker_is_checked(harm, message) -> None:
    simulation = simulation_at_work()
    process = harm(simulation)
    with pytest.raises(InvariantViolated, match=message):
        simulation.invariants.check(process)


def test_a_replica_that_is_removed_may_begin_anew() -> None:
    simulation = simulation_at_work()
    process, partition = replica(simulation, of_leader=False)
    registration = partition.registration
    metadata, others = partition.replica.key, tuple(node for node in registration.replicas if node != process.number)
    metadata.registration = registration._replace(replicas=others)
    simulation.invariants.check(process)
    metadata.registration, partition.watermark.value = registration, 0
    simulation.invariants.check(process)


def test_a_member_that_lacks_committed_records_is_found() -> None:
    simulation = simulation_at_work()
    _, partition = replica(simulation, of_leader=False)
    partition.log.truncate_to(0)
    simulation.invariants._grown[simulation.keys()[0]] = None
    with pytest.raises(InvariantViolated, match="are committed"):
        simulation.invariants.check_members(simulation._processes())


def test_a_member_that_is_being_cut_is_compared_afterwards() -> None:
    simulation = simulation_at_work()
    process, partition = replica(simulation, of_leader=False)
    cut = LogCut(partition.log, 0)
    cut.lock()
    simulation.invariants.forget(process)
    simulation.invariants.check(process)
    simulation.invariants._grown[simulation.keys()[0]] = None
    simulation.invariants.check_members(simulation._processes())
    cut.run()
    cut.end(None)
    with pytest.raises(InvariantViolated, match="are committed"):
        simulation.invariants.check_members(simulation._processes())


def test_a_committed_record_that_differs_is_found() -> None:
    simulation = simulation_at_work()
    known = history(simulation)
    known.committed[0] = known.committed[0]._replace(crc=1)
    process, _ = replica(simulation, of_leader=False)
    simulation.invariants.forget(process)
    with pytest.raises(InvariantViolated, match="committed was"):
        simulation.invariants.check(process)


def other_leader(partition):
    other = next(node for node in partition.isr if node != partition.leader)
    return partition._replace(leader=other, partition_epoch=partition.partition_epoch + 1)


def unclean_leader(partition):
    node = next(node for node in partition.replicas if node != partition.leader)
    partition = partition._replace(isr=(partition.leader,), partition_epoch=partition.partition_epoch + 1)
    elected = partition._replace(
        leader=node, isr=(node,), leader_epoch=partition.leader_epoch + 1, partition_epoch=partition.partition_epoch + 1
    )
    return partition, elected


def commit(simulation, *partitions) -> None:
    """Commit registrations of the first partition one after another."""
    record = simulation.store.read(TOPICS_PREFIX + "t0")[TOPICS_PREFIX + "t0"].value
    for partition in partitions:
        topic = TopicRegistration.from_bytes("t0", record)
        after = topic._replace(partitions=(partition, *topic.partitions[1:])).to_bytes()
        simulation.invariants.committed({TOPICS_PREFIX + "t0": record}, {TOPICS_PREFIX + "t0": after})
        record = after


def test_each_invariant_of_the_store_is_checked() -> None:
    simulation = simulation_at_work()
    partition = history(simulation).registration
    with pytest.raises(InvariantViolated, match="another leader in the same epoch"):
        commit(simulation, other_leader(partition))
    with pytest.raises(InvariantViolated, match="the epochs do not rise"):
        commit(simulation, partition._replace(isr=partition.isr[:2]))
    with pytest.raises(InvariantViolated, match="unclean election after 0 lossy crashes"):
        commit(simulation, *unclean_leader(partition))
    broker = simulation.invariants.brokers[1]
    for changed, message in [
        (broker._replace(epoch=broker.epoch + 1, fenced=False), "registers unfenced"),
        (broker._replace(epoch=broker.epoch - 1, fenced=True), "falls from"),
    ]:
        with pytest.raises(InvariantViolated, match=message):
            simulation.invariants.committed({}, {f"{BROKERS_PREFIX}1": changed.to_bytes()})


def test_violating_commit_is_found_though_its_broker_goes_on() -> None:
    simulation = simulation_at_work()
    partition = history(simulation).registration
    record = simulation.store.read(TOPICS_PREFIX + "t0")[TOPICS_PREFIX + "t0"].value
    topic = TopicRegistration.from_bytes("t0", record)
    changed = topic._replace(partitions=(other_leader(partition), *topic.partitions[1:]))
    with pytest.raises(InvariantViolated):
        simulation.store.commit({}, {TOPICS_PREFIX + "t0": changed.to_bytes()}, [])
    with pytest.raises(InvariantViolated, match="another leader in the same epoch"):
        run_for(simulation, 1000)


def test_an_election_after_enough_crashes_ends_the_checks_of_its_partition() -> None:
    simulation = simulation_at_work()
    for node in (1, 2):
        broker = simulation.invariants.brokers[node]
        for clean in (False, False, True):  # the second one registers what is known
            broker = broker._replace(epoch=broker.epoch + 1, fenced=True, clean=clean)
            simulation.invariants.committed({}, {f"{BROKERS_PREFIX}{node}": broker.to_bytes()})
    assert simulation.invariants.lossy_crashes == 2
    commit(simulation, *unclean_leader(history(simulation).registration))
    assert len(simulation._all_keys()) == len(simulation.invariants.histories) - 1
