"""The commits of moves, as a start finds and ends them."""

from __future__ import annotations

from kqueue.log.folders.moved_partitions import MovedPartitions, is_covered
from kqueue.log.formats.moved_partitions import MOVED_PARTITIONS, MovedPartition, future_folder
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.tests.log.two_folders import append, check_records, names, place_of, run, start

MOVED = MovedPartition("t", 0, b"i" * 16, future_folder("t", 0, "0" * 32), 100, 50)


def test_entries_survive_and_go() -> None:
    storage = MemoryStorage()
    moved = MovedPartitions(storage)
    assert moved.entries == {}
    moved.commit(MOVED)
    assert MovedPartitions(storage).entries == {("t", 0): MOVED}
    moved.remove(("t", 1))
    moved.remove(("t", 0))
    assert MovedPartitions(storage).entries == {}


def test_a_damaged_file_is_reported_and_ignored() -> None:
    storage = MemoryStorage()
    storage.write_atomic(MOVED_PARTITIONS, b"\0" * 10)
    assert MovedPartitions(storage).entries == {}


def test_folders_of_copies_are_known_by_their_names() -> None:
    moved = MovedPartitions(MemoryStorage())
    for name in ("t-0", "t-0." + "1" * 32 + "-future", "t-0." + "1" * 32 + "-delete", "t." + "1" * 32 + "-future"):
        moved.found_folder(name)
    assert moved.futures == {("t", 0): ["t-0." + "1" * 32 + "-future"]}


def test_a_log_is_covered_up_to_its_last_byte() -> None:
    storage = MemoryStorage()
    storage.make_folder("t-0")

    def write(base: int, size: int) -> None:
        storage.open(f"t-0/{base:020d}.log", create=True).append(b"." * size)

    write(0, 500)
    assert is_covered(storage, "t-0", MOVED)
    write(100, 50)
    write(130, 0)
    assert is_covered(storage, "t-0", MOVED)
    write(100, 1)
    assert not is_covered(storage, "t-0", MOVED)


def test_a_log_that_has_grown_after_the_commit_stays() -> None:
    """The move was given up, and its entry could not be removed."""
    storage = FaultyStorage()
    sim = start(storage)
    partition = sim.topic("t").partition(0)
    append(partition, 5)
    sim.settle()
    source = place_of(sim)
    target = next(folder for folder in sim.logs._folders if folder.storage.location != source)
    future = future_folder("t", 0, "0" * 32)
    log = partition.log
    target.storage.make_folder(future)
    topic_id = sim.broker.topics.get("t").id
    target.moved.commit(MovedPartition("t", 0, topic_id, future, 0, log.segments.active.size))
    append(partition, 1)
    sim.settle()
    storage.locks.clear()
    sim = start(storage, sim)
    run(sim, 5000)
    check_records(sim.broker.topics.partition("t", 0))
    assert place_of(sim) == target.storage.location, "the move begins again"
    assert sim.broker.topics.partition("t", 0).high_watermark == 6
    assert names(storage, target.storage.location) == ["t-0"]
