import contextlib
from collections.abc import Iterator

import pytest

from kqueue.tests.simulation.replication_world import InvariantViolated
from kqueue.tests.simulation.simulated_clusters import history, replica, tiered_simulation_at_work
from kqueue.tests.simulation.tier_simulation import TierSimulation
from kqueue.tests.tables import for_each
from kqueue.tier.formats.manifest_root import ManifestRoot, encode_root

OTHER_ID = "0" * 32


@pytest.fixture(scope="module")
def running() -> Iterator[TierSimulation]:
    with tiered_simulation_at_work() as simulation:
        yield simulation


@contextlib.contextmanager
def unharmed(running: TierSimulation) -> Iterator[TierSimulation]:
    """The cluster at work, which is in the end as it was before."""
    invariants, key = running.tier_invariants, running.keys()[0]
    known, tree, objects = history(running), invariants.trees[key], dict(running.objects.by_key)
    committed, end = dict(known.committed), known.end
    process, partition = replica(running, of_leader=True)
    log = partition.log
    epochs, start, local_start = log.epochs.entries(), log.start_offset, log.local_start_offset
    invariants.check(process)
    try:
        yield running
    finally:
        known.committed, known.end = committed, end
        invariants.trees[key], running.objects.by_key = tree, objects
        invariants.deleted_to.clear()
        invariants.forget(process)
        log.epochs.replace(epochs)
        log.start_offset, log.local_start_offset = start, local_start


def root_of(simulation) -> ManifestRoot:
    return simulation.tier_invariants.trees[simulation.keys()[0]].root


def write(simulation, **changes) -> None:
    root = root_of(simulation).next(**changes)
    simulation.objects.put(root.partition.manifest_key, encode_root(root))


def newest(simulation):
    return root_of(simulation).segments[-1]


def lose_a_segment(simulation) -> None:
    root = root_of(simulation)
    segments = (*root.segments[:-2], root.segments[-1])
    write(simulation, segments=segments)


def count_wrong(simulation) -> None:
    write(simulation, count=root_of(simulation).count + 1)


def write_as_an_older_leader(simulation) -> None:
    write(simulation, leader_epoch=-1)


def raise_the_start(simulation) -> None:
    write(simulation, log_start_offset=1)


def lower_the_start(simulation) -> None:
    simulation.tier_invariants.deleted_to[simulation.keys()[0]] = 1
    write(simulation, log_start_offset=1)
    write(simulation, log_start_offset=0)


def raise_the_start_too_far(simulation) -> None:
    simulation.tier_invariants.deleted_to[simulation.keys()[0]] = 10**6
    write(simulation, log_start_offset=10**6)


def without_newest(simulation, *instead) -> None:
    root, last = root_of(simulation), newest(simulation)
    size = root.size - (0 if instead else last.size)
    write(simulation, segments=(*root.segments[:-1], *instead), size=size, count=root.count - 1 + len(instead))


def cut_the_newest(simulation) -> None:
    last = newest(simulation)
    without_newest(simulation, last.cut(last.end_offset - 1))


def name_an_object_that_is_not_there(simulation) -> None:
    without_newest(simulation, newest(simulation)._replace(object_id=OTHER_ID))


def name_a_damaged_object(simulation) -> None:
    partition, entry = root_of(simulation).partition, newest(simulation)._replace(object_id=OTHER_ID)
    body = bytearray(simulation.objects.get(newest(simulation).key(partition)).body)
    body[70] ^= 1
    simulation.objects.put(entry.key(partition), bytes(body))
    without_newest(simulation, entry)


def name_an_object_of_other_offsets(simulation) -> None:
    last, segments = newest(simulation), root_of(simulation).segments
    partition, earlier = root_of(simulation).partition, segments[-2]
    entry = earlier._replace(
        object_id=OTHER_ID, start_offset=last.start_offset, end_offset=last.end_offset, epochs=last.epochs
    )
    simulation.objects.put(entry.key(partition), simulation.objects.get(earlier.key(partition)).body)
    root = root_of(simulation)
    write(simulation, segments=(*segments[:-1], entry), size=root.size - last.size + entry.size)


def copy_what_is_not_committed(simulation) -> None:
    partition, entry = root_of(simulation).partition, newest(simulation)._replace(object_id=OTHER_ID)
    simulation.objects.put(entry.key(partition), simulation.objects.get(newest(simulation).key(partition)).body)
    del history(simulation).committed[entry.start_offset]
    without_newest(simulation, entry)


def delete_what_is_named(simulation) -> None:
    simulation.objects.delete([newest(simulation).key(root_of(simulation).partition)])


def delete_the_manifest(simulation) -> None:
    simulation.objects.delete([root_of(simulation).partition.manifest_key])


def replace_what_is_named(simulation) -> None:
    simulation.objects.put(newest(simulation).key(root_of(simulation).partition), b"other")


@for_each(
    "harm, message",
    [
        (lose_a_segment, "comes after"),
        (count_wrong, "counts"),
        (write_as_an_older_leader, "is replaced by one of epoch -1"),
        (raise_the_start, "which nobody asked for"),
        (lower_the_start, "the log start in the tier falls"),
        (raise_the_start_too_far, "beyond"),
        (without_newest, "a committed segment is removed"),
        (cut_the_newest, "a committed segment is cut"),
        (name_an_object_that_is_not_there, "without an object"),
        (name_a_damaged_object, "other checksums"),
        (name_an_object_of_other_offsets, "an object with"),
        (copy_what_is_not_committed, "is copied, committed is None"),
        (delete_what_is_named, "is deleted, and the manifest has it"),
        (delete_the_manifest, "manifest is deleted"),
        (replace_what_is_named, "is replaced, and the manifest has it"),
    ],
)
def test_each_invariant_of_the_store_is_checked(running, harm, message) -> None:
    with unharmed(running) as simulation, pytest.raises(InvariantViolated, match=message):
        harm(simulation)


def begin_later(simulation, log) -> None:
    log.start_offset = 3


def begin_again_earlier(simulation, log) -> None:
    simulation.tier_invariants.deleted_to[simulation.keys()[0]] = 3
    log.start_offset = 3
    simulation.tier_invariants.check(replica(simulation, of_leader=True)[0])
    log.start_offset = 2


def delete_what_the_tier_lacks(simulation, log) -> None:
    log.local_start_offset = log.end_offset + 1


def delete_what_the_tier_has_of_another_log(simulation, log) -> None:
    log.epochs.replace([(5, 0)])
    simulation.tier_invariants.forget(replica(simulation, of_leader=True)[0])


def claim_what_the_log_contradicts(simulation, log) -> None:
    log.epochs.replace([(0, 0), (5, newest(simulation).start_offset)])
    log.local_start_offset = 0
    simulation.tier_invariants.forget(replica(simulation, of_leader=True)[0])


def begin_without_the_tier(simulation, log) -> None:
    key = simulation.keys()[0]
    tree, invariants = simulation.tier_invariants.trees[key], simulation.tier_invariants
    invariants.trees[key] = tree._replace(root=tree.root.next(leader_epoch=-1))
    log.local_start_offset = 0
    log.epochs.replace([(0, 0)])
    invariants.forget(replica(simulation, of_leader=True)[0])


@for_each(
    "harm, message",
    [
        (begin_later, "the log starts at 3, in the manifest at 0"),
        (begin_again_earlier, "the log start falls from 3 to 2"),
        (delete_what_the_tier_lacks, "the tier lacks"),
        (delete_what_the_tier_has_of_another_log, "has deleted offset 0 of epoch 5"),
        (claim_what_the_log_contradicts, "has claimed the tier"),
        (begin_without_the_tier, "had no records, and begins at 0"),
    ],
)
def test_each_invariant_of_a_broker_is_checked(running, harm, message) -> None:
    process, partition = replica(running, of_leader=True)
    with unharmed(running) as simulation:
        harm(simulation, partition.log)
        with pytest.raises(InvariantViolated, match=message):
            simulation.tier_invariants.check(process)


def test_object_that_no_manifest_names_is_an_orphan_unless_it_was_late(running) -> None:
    with unharmed(running) as simulation:
        key, invariants = simulation.keys()[0], simulation.tier_invariants
        assert invariants.orphans(key) == []
        orphan = root_of(simulation).partition.segment_key(0, OTHER_ID)
        simulation.objects.delete([orphan])
        simulation.objects.put(orphan, b"")
        assert invariants.orphans(key) == [], "its deletion was before it arrived"
        del simulation.objects.deleted_ms[orphan]
        assert invariants.orphans(key) == [orphan]


def test_records_that_are_on_disk_and_in_the_tier_are_the_same(running) -> None:
    with unharmed(running) as simulation:
        _, partition = replica(simulation, of_leader=True)
        whole = simulation._whole_log(simulation.keys()[0], partition)
        assert whole[0].base_offset == 0
        assert whole[-1].last_offset == partition.log_end_offset - 1
