from __future__ import annotations

import logging

import pytest

from kqueue.base.errors import DiskFull
from kqueue.base.settings import GiB, MiB
from kqueue.log.folders.disk_space import AUTOMATIC, EMERGENCY_FILE, DiskSpace
from kqueue.storage import MemoryStorage
from kqueue.testing.faulty_storage import FaultyStorage
from kqueue.testing.manual_clock import ManualClock
from kqueue.tests.tables import for_each

RESERVE = 10_000


class Disk:
    """A volume of 1 MB (so the emergency file has 10 kB), of which another program holds `taken`
    bytes.
    """

    def __init__(self, reserve_bytes: int = RESERVE, total: int = 1_000_000) -> None:
        self.clock = ManualClock()
        self.storage = FaultyStorage(capacity_bytes=total)
        self.space = DiskSpace(self.storage, reserve_bytes, self.clock)

    def take(self, leaves: int) -> None:
        room = self.storage.room()
        assert room is not None
        other = self.storage.open("other", create=True)
        if leaves < room:
            other.append(bytes(room - leaves))
        else:
            other.truncate(other.size - (leaves - room))

    def wrote(self, size: int) -> None:
        """As an append counts."""
        self.space.bytes_until_refresh -= size
        if self.space.bytes_until_refresh < 0:
            self.space.refresh()

    def is_refused(self) -> bool:
        """As an append asks."""
        if self.space.refusal is None:
            return False
        try:
            self.space.check()
        except DiskFull:
            return True
        return False


def messages(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [(record.levelname, record.message) for record in caplog.records]


def test_producers_are_refused_below_the_reserve_and_served_above_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kqueue.log")
    disk = Disk()
    disk.space.begin()
    assert disk.storage.open(EMERGENCY_FILE).size == 10_000
    disk.take(leaves=RESERVE)
    disk.space.refresh()
    assert not disk.is_refused()
    disk.take(leaves=RESERVE - 1)
    disk.space.refresh()
    assert disk.is_refused()
    disk.take(leaves=2 * RESERVE)
    assert disk.is_refused(), "it does not look for each request"
    disk.clock.advance(500)
    assert not disk.is_refused()
    (warned, refused), (informed, over) = messages(caplog)
    assert (warned, informed) == ("WARNING", "INFO")
    assert "expected 10000 free bytes at least in faulty storage, found 9999 (kqueue.disk.reserve.bytes)" in refused
    assert "has room again" in over


def test_free_space_is_measured_after_half_of_it_was_written() -> None:
    disk = Disk(total=10_000_000)
    disk.space.begin()
    disk.take(leaves=1_000_000)
    disk.space.refresh()
    disk.take(leaves=0)
    disk.wrote(490_000)
    assert disk.space.refusal is None
    disk.wrote(10_000)
    assert disk.space.refusal is not None


@for_each("total, reserve", [(64 * MiB, 64 * MiB // 100), (10 * GiB, 64 * MiB), (1000, 10)])
def test_the_default_reserve_is_one_percent_and_at_most_64_mib(total: int, reserve: int) -> None:
    space = DiskSpace(FaultyStorage(capacity_bytes=total), AUTOMATIC, ManualClock())
    sizes = space._sizes()
    assert sizes is not None
    assert sizes[1] == reserve


def test_producers_are_accepted_without_a_reserve_or_known_free_space() -> None:
    for space in (DiskSpace(MemoryStorage(), RESERVE, ManualClock()), Disk(0).space):
        space.begin()
        space.refresh()
        assert space.refusal is None


def test_a_full_disk_has_space_for_the_brokers_own_files() -> None:
    disk = Disk()
    disk.space.begin()
    disk.take(leaves=0)
    with pytest.raises(DiskFull):
        disk.storage.write_atomic("checkpoint", b"x" * 5000)
    assert disk.space.make_room()
    disk.storage.write_atomic("checkpoint", b"x" * 5000)
    assert not disk.space.make_room(), "only once"
    disk.wrote(1)
    assert disk.is_refused(), "what was given up is not for producers"
    disk.take(leaves=RESERVE + 9_999)
    disk.clock.advance(500)
    assert disk.is_refused(), "the emergency file comes first"
    disk.take(leaves=RESERVE + 10_000)
    disk.clock.advance(500)
    assert not disk.is_refused()
    assert disk.storage.open(EMERGENCY_FILE).size == 10_000


def test_a_start_on_a_full_disk_succeeds() -> None:
    disk = Disk()
    disk.space.begin()
    disk.take(leaves=0)
    again = DiskSpace(disk.storage, RESERVE, disk.clock)
    again.begin()
    assert disk.storage.room() == 10_000
    assert again.refusal is not None


def test_appends_without_space_are_logged_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk(0)
    for _ in range(3):
        disk.space.on_disk_full(DiskFull("ENOSPC"))
    disk.clock.advance(60_000)
    disk.space.on_disk_full(DiskFull("ENOSPC"))
    assert [level for level, _ in messages(caplog)] == ["WARNING", "WARNING"]
