from __future__ import annotations

from kqueue.log.formats.filenames import SNAPSHOT, file_name
from kqueue.log.log import Log
from kqueue.log.producer_state import ProducerStateManager
from kqueue.log.recovery.producer_replay import load_producers, replay
from kqueue.storage import MemoryStorage
from kqueue.tests.log.helpers import append, open_log


def filled(storage: MemoryStorage) -> Log:
    log = open_log(storage, segment_bytes=400)
    for number in range(12):
        append(log, b"%03d" % number, producer_id=1 + number % 2, epoch=0, base_sequence=number // 2)
    return log


def last_sequences(producers: ProducerStateManager) -> dict[int, int]:
    return {id: producer.batches[-1].last_sequence for id, producer in producers.items()}


def test_a_replay_from_any_snapshot_gives_the_same_state() -> None:
    """S5.3"""
    storage = MemoryStorage()
    log = filled(storage)
    for offset in (0, *log._snapshots.offsets):
        producers = load_producers(storage, "t-0", [*log._snapshots.offsets], offset)
        assert producers.end_offset == offset
        replay(log.segments, producers, 12)
        assert last_sequences(producers) == {1: 5, 2: 5}
        assert producers.end_offset == 12


def test_a_bound_within_the_log_is_kept() -> None:
    log = filled(MemoryStorage())
    producers = ProducerStateManager()
    replay(log.segments, producers, 7)
    assert (last_sequences(producers), producers.end_offset) == ({1: 3, 2: 2}, 7)


def test_damage_costs_the_batch_that_it_hit() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    position = 2 * (log.segments[0].size // 5)
    file = log.segments[0].log
    data = bytearray(file.read_at(0, file.size))
    data[position + 8] ^= 0x40  # its length
    file.truncate(0)
    file.append(data)
    producers = ProducerStateManager()
    replay(log.segments, producers, 12)
    assert last_sequences(producers) == {1: 5, 2: 5}
    assert [batch.last_sequence for batch in producers.by_id[1].batches] == [0, 2, 3, 4, 5]


def test_corrupt_snapshots_are_removed_and_an_older_one_is_used() -> None:
    storage = MemoryStorage()
    log = filled(storage)
    offsets = [*log._snapshots.offsets]
    assert len(offsets) == 2
    path = f"t-0/{file_name(offsets[-1], SNAPSHOT)}"
    storage.write_atomic(path, storage.read(path)[:-1])
    producers = load_producers(storage, "t-0", offsets, 12)
    assert producers.end_offset == offsets[0]
    assert len(offsets) == 1
    assert not storage.exists(path)
