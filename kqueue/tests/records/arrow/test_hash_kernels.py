from __future__ import annotations

import zlib

import pytest

pytest.importorskip("numba", reason="kqueue[fast] is not installed")

import numpy as np

from kqueue.records.arrow.hash_kernels import crc32_all, murmur2_all
from kqueue.records.partitioners.murmur2 import murmur2
from kqueue.tests.tables import for_each

pytestmark = pytest.mark.timeout(300)  # the first run compiles

DATA = bytes(range(256))


@for_each("size", range(20))
def test_all_that_can_be_left_over_of_whole_words(size: int) -> None:
    view = np.frombuffer(DATA, np.uint8)
    for kernel, one in ((murmur2_all, murmur2), (crc32_all, zlib.crc32)):
        hashes = np.zeros(2, np.uint32)
        assert kernel(np.array([3, 3 + size, 3 + 2 * size], np.int32), view, hashes)
        assert hashes.tolist() == [one(DATA[3 : 3 + size]), one(DATA[3 + size : 3 + 2 * size])]


@for_each("ends", [[0, 257], [-1, 4], [5, 4]])
def test_positions_that_leave_the_data_are_not_followed(ends: list[int]) -> None:
    view = np.frombuffer(DATA, np.uint8)
    for kernel in (murmur2_all, crc32_all):
        assert not kernel(np.array(ends, np.int32), view, np.zeros(1, np.uint32))
