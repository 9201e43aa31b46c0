"""A broker with two data folders, "a" and "b", on one disk, for tests of moves."""

from __future__ import annotations

from collections.abc import Iterator

from kqueue.broker.replicas.partition import Partition
from kqueue.records.batch import Record, check_crc, iter_batches, iter_records, read_header
from kqueue.records.builder import build_batch
from kqueue.storage.contract import File, FolderEntry, Lock
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.simulation import Simulation

NOW_MS = 1_700_000_000_000


class Subfolder:
    """A data folder within a faulty storage, so that one power cut hits both."""

    opener = None

    def __init__(self, storage: FaultyStorage, location: str) -> None:
        self.storage = storage
        self.location = location
        storage.make_folder(location)

    def _path(self, path: str) -> str:
        return f"{self.location}/{path}" if path else self.location

    def open(self, path: str, *, create: bool = False, size: int | None = None) -> File:
        return self.storage.open(self._path(path), create=create, size=size)

    def read(self, path: str) -> bytes:
        return self.storage.read(self._path(path))

    def exists(self, path: str) -> bool:
        return self.storage.exists(self._path(path))

    def list(self, folder: str) -> list[FolderEntry]:
        return self.storage.list(self._path(folder))

    def make_folder(self, path: str) -> None:
        self.storage.make_folder(self._path(path))

    def remove(self, path: str) -> None:
        self.storage.remove(self._path(path))

    def rename(self, old: str, new: str) -> None:
        self.storage.rename(self._path(old), self._path(new))

    def sync_folder(self, folder: str) -> None:
        self.storage.sync_folder(self._path(folder))

    def write_atomic(self, path: str, data: bytes) -> None:
        self.storage.write_atomic(self._path(path), data)

    def lock(self, name: str) -> Lock:
        return self.storage.lock(self._path(name))

    def free_bytes(self) -> int | None:
        return self.storage.room()

    def total_bytes(self) -> int | None:
        return self.storage.capacity_bytes


def start(storage: FaultyStorage, sim: Simulation | None = None, **settings: object) -> Simulation:
    """A broker on both folders; with `sim` one that has its metadata and time."""
    values: dict[str, object] = {"log.retention.check.interval.ms": 10**9, "log.cleaner.enable": False}
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    folders = [Subfolder(storage, "a"), Subfolder(storage, "b")]
    if sim is None:
        storage.sync_folder("")
        return Simulation(values, storage=folders[0], more_storages=folders[1:])
    return Simulation(
        sim.settings | values,
        storage=folders[0],
        more_storages=folders[1:],
        store=sim.store,
        clock=sim.clock,
        seed=sim.broker.replicas.host.sole_replica.leader_epoch + 1,
    )


def append(partition: Partition, count: int = 1, size: int = 20, **producer: int) -> None:
    """Append batches of one record: its offset, padded."""
    for _ in range(count):
        batch = build_batch([Record(0, NOW_MS, None, b"%d" % partition.log_end_offset + b"." * size)], **producer)  # type: ignore[arg-type]
        partition.append(memoryview(batch), read_header(batch))


def records(partition: Partition) -> Iterator[Record]:
    """Return the records that a consumer from the beginning gets, with checked checksums."""
    offset = partition.log_start_offset
    while offset < partition.high_watermark:
        data = partition.read_now(offset, 1 << 20).read()
        for position, header in iter_batches(data):
            check_crc(data, position, header)
            yield from (record for record in iter_records(data, position) if record.offset >= offset)
            offset = header.next_offset


def check_records(partition: Partition) -> None:
    """Check that each offset is there once, with its own number."""
    offsets = []
    for record in records(partition):
        assert record.value is not None
        assert record.value.rstrip(b".") == b"%d" % record.offset
        offsets.append(record.offset)
    assert offsets == list(range(partition.log_start_offset, partition.high_watermark))


def place_of(sim: Simulation, index: int = 0) -> str:
    """The data folder that holds the partition of topic t."""
    location = sim.logs.location_of("t", index)
    assert location is not None
    assert location[1] == f"t-{index}"
    return location[0].location


def names(storage: FaultyStorage, folder: str) -> list[str]:
    """The folders of partitions and copies in a data folder."""
    return [entry.name for entry in storage.list(folder) if entry.is_folder]


def run(sim: Simulation, ms: float = 3000) -> None:
    """Run a move to its end."""
    sim.settle()
    sim.advance(ms)
