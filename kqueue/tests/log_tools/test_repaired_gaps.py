"""S3.6: the file of offset ranges that a repair found missing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log_tools.repaired_gaps import decode_gaps, encode_gaps
from kqueue.tests.tables import for_each

gaps = st.builds(lambda first, size: (first, first + size), st.integers(0, 2**62), st.integers(1, 2**31))


@settings(deadline=None)
@given(st.lists(gaps, max_size=9))
def test_round_trip(rows: list[tuple[int, int]]) -> None:
    assert decode_gaps(encode_gaps(rows)) == sorted(set(rows))


NONE = [b"", b"1\n0\n", b"0\n2\n1 2\n", b"0\n1\n5 5\n", b"0\n1\n-1 5\n", b"0\n1\nx y\n", b"\xff", b"0\n1\n1 2 3\n"]


@for_each("data", NONE)
def test_malformed_gap_list_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        decode_gaps(data)
