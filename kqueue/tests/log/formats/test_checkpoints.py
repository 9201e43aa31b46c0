from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.errors import CorruptIndex
from kqueue.log.formats import checkpoints
from kqueue.storage import MemoryStorage
from kqueue.tests.tables import for_each

TOPICS = st.from_regex(r"[a-zA-Z0-9._-]{1,20}", fullmatch=True)


@given(st.dictionaries(st.tuples(TOPICS, st.integers(0, 1000)), st.integers(0, 2**63 - 1), max_size=10))
def test_offset_checkpoints_read_back(offsets: dict[tuple[str, int], int]) -> None:
    assert checkpoints.decode_offsets(checkpoints.encode_offsets(offsets)) == offsets


def test_the_format_is_kafkas() -> None:
    assert checkpoints.encode_offsets({("t", 0): 5, ("u", 12): 0}) == b"0\n2\nt 0 5\nu 12 0\n"
    assert checkpoints.encode_offsets({}) == b"0\n0\n"


@for_each(
    "data",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\nt 0 5\n",
        b"0\n1\nt 0\n",
        b"0\n1\nt x 5\n",
        b"0\n1\nt 0 -5\n",
        b"0\n1\nt -1 5\n",
        b"\xff\xfe",
    ],
)
def test_a_damaged_checkpoint_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        checkpoints.decode_offsets(data)


def test_properties_pass_over_comments_and_keep_their_order() -> None:
    data = b"#\n#Sat Nov 21 02:04:20 UTC 2026\n! other comment\n\nnode.id=1\nb = c=d\n"
    assert checkpoints.decode_properties(data) == {"node.id": "1", "b": "c=d"}
    with pytest.raises(CorruptIndex, match="expected key=value, found 'junk'"):
        checkpoints.decode_properties(b"junk\n")


def test_the_topic_id_of_a_folder_reads_back() -> None:
    data = checkpoints.encode_partition_metadata(bytes(range(16)))
    assert data == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    assert checkpoints.decode_partition_metadata(data + b"\n") == bytes(range(16))


@for_each(
    "data",
    [b"", b"version: 1\ntopic_id: AAECAwQFBgcICQoLDA0ODw", b"version: 0\n", b"version: 0\ntopic_id: short", b"\xff"],
)
def test_a_damaged_topic_id_is_corrupt(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        checkpoints.decode_partition_metadata(data)


def test_the_marker_of_a_clean_stop_is_json() -> None:
    assert json.loads(checkpoints.encode_clean_shutdown(4)) == {"version": 0, "brokerEpoch": 4}
    assert checkpoints.decode_clean_shutdown(checkpoints.encode_clean_shutdown(4)) == 4


@for_each("data", [b"", b"\xff", b"[]", b"{}", b'{"version":0,"brokerEpoch":"4"}', b"7"])
def test_a_mark_of_a_clean_stop_that_names_no_epoch_is_of_none(data: bytes) -> None:
    """Older Kafkas leave an empty file."""
    assert checkpoints.decode_clean_shutdown(data) == -1


def test_a_file_larger_than_any_can_be_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "FILE_BYTES_MAX", 100)
    storage = MemoryStorage()
    storage.write_atomic("small", bytes(100))
    storage.write_atomic("large", bytes(101))
    assert len(checkpoints.read_small_file(storage, "small")) == 100
    with pytest.raises(CorruptIndex, match="large has 101 bytes, expected 100 at most"):
        checkpoints.read_small_file(storage, "large")


@for_each("number", ["1_0", " 5", "+5", "\u0665", "9" * 19, "9" * 50])
def test_a_number_is_digits_that_kafkas_long_holds(number: str) -> None:
    with pytest.raises(CorruptIndex):
        checkpoints.decode_offsets(f"0\n1\nt 0 {number}\n".encode())
