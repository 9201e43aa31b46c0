"""Batch headers of a region: as many as a fetch needs, and no wait for a disk."""

from __future__ import annotations

from kqueue.broker.share import share_headers
from kqueue.broker.share.share_headers import PAGE_BYTES, read_headers
from kqueue.storage import Region
from kqueue.tests.api.harness import batch


class PagedFile:
    """A file of which some pages are in memory; a read brings its own in."""

    def __init__(self, data: bytes, cached: set[int]) -> None:
        self.data = data
        self.cached = cached
        self.blocked = 0
        self.probes = 0

    def _pages(self, position: int, size: int) -> set[int]:
        return set(range(position // PAGE_BYTES, (position + size - 1) // PAGE_BYTES + 1))

    def read_at(self, position: int, size: int) -> bytes:
        pages = self._pages(position, size)
        self.blocked += not pages <= self.cached
        self.cached |= pages
        return self.data[position : position + size]

    def fileno(self) -> None:
        return None

    def is_cached(self, position: int, size: int) -> bool:
        self.probes += 1
        return self._pages(position, size) <= self.cached


def log_of(count: int, size: int = 100) -> bytes:
    return b"".join(batch(b"x" * size, b"y", base_offset=2 * number) for number in range(count))


def test_as_many_as_the_records_need() -> None:
    data = log_of(5)
    region = Region(PagedFile(data, {0}), 0, len(data))
    found = read_headers(region, 3, may_block=False)
    assert found is not None
    assert [each.header.base_offset for each in found.batches] == [0, 2, 4]
    assert [each.position for each in found.batches] == [0, len(data) // 5, 2 * len(data) // 5]
    assert found.next_offset == 6


def test_a_pass_has_a_bound() -> None:
    one = batch(b"x")
    region = Region(PagedFile(one * 3000, set(range(1000))), 0, len(one) * 3000)
    found = read_headers(region, 2**31, may_block=False)
    assert found is not None
    assert len(found.batches) == share_headers.BATCHES_MAX


def test_nothing_is_read_that_is_on_the_disk_only() -> None:
    data = log_of(20, 1000)
    file = PagedFile(data, {0, 1})
    region = Region(file, 0, len(data))
    assert read_headers(region, 1000, may_block=False) is None
    assert file.blocked == 0
    found = read_headers(region, 1000, may_block=True)
    assert found is not None
    assert len(found.batches) == 20
    assert file.blocked
    file.blocked = 0
    assert read_headers(region, 1000, may_block=False) is not None
    assert file.blocked == 0


def test_a_page_is_looked_for_once() -> None:
    data = log_of(30)
    file = PagedFile(data, set(range(10)))
    assert read_headers(Region(file, 0, len(data)), 1000, may_block=False) is not None
    assert file.probes <= -(-len(data) // PAGE_BYTES) + 1
