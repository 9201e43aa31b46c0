from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kqueue.log.formats.filenames import LOG, SEGMENT_SUFFIXES, SNAPSHOT, file_name, parse_file_name
from kqueue.tests.tables import for_each


def test_names_have_twenty_digits() -> None:
    """S3.2"""
    assert file_name(42, LOG) == "00000000000000000042.log"
    assert file_name(0, SNAPSHOT) == "00000000000000000000.snapshot"


@given(st.integers(0, 2**63 - 1), st.sampled_from([*SEGMENT_SUFFIXES, SNAPSHOT]))
def test_names_read_back(offset: int, suffix: str) -> None:
    assert parse_file_name(file_name(offset, suffix)) == (offset, suffix)


@for_each(
    "name",
    [
        "partition.metadata",
        "1.log",
        "00000000000000000042",
        "00000000000000000042.log.deleted",
        "x0000000000000000042.log",
        "",
    ],
)
def test_other_names_are_no_segments(name: str) -> None:
    assert parse_file_name(name) is None
