from __future__ import annotations

from kqueue.storage import MemoryStorage, Region
from kqueue.storage.region import BytesSource


def test_a_region_reads_its_stretch_of_the_source() -> None:
    file = MemoryStorage().open("a", create=True)
    file.append(b"0123456789")
    region = Region(file, 2, 5)
    assert (len(region), region.read(), region.fileno(), region.is_cached()) == (5, b"23456", None, True)


def test_source_that_does_not_read_in_one_step_is_asked_first() -> None:
    class Source:
        cached = True

        def read_at(self, position: int, size: int) -> bytes:
            return b"0123456789"[position : position + size]

        def fileno(self) -> int | None:
            return None

        def is_cached(self, position: int, size: int) -> bool:
            return self.cached

    source = Source()
    assert Region(source, 2, 5).read_cached() == b"23456"
    source.cached = False
    assert Region(source, 2, 5).read_cached() is None


def test_bytes_in_memory_are_a_source_without_a_disk() -> None:
    region = Region(BytesSource(b"0123456789"), 2, 5)
    assert (region.read(), region.read_cached(), region.fileno(), region.location) == (b"23456", b"23456", None, "")
