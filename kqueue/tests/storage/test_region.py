from __future__ import annotations

from kqueue.storage import MemoryStorage, Region


def test_a_region_reads_its_stretch_of_the_source() -> None:
    file = MemoryStorage().open("a", create=True)
    file.append(b"0123456789")
    region = Region(file, 2, 5)
    assert (len(region), region.read(), region.fileno(), region.is_cached()) == (5, b"23456", None, True)
