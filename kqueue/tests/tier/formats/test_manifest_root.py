from __future__ import annotations

import json
from typing import Any

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from kqueue.base.names import uuid_text
from kqueue.tests.tier.segment_entries import entry, ordered_entries
from kqueue.tests.tier.tiered_logs import ORDERS
from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.manifest_root import (
    DELETING_MAX,
    LEVELS_MAX,
    LIST_ITEMS_MAX,
    PAGE_ITEMS,
    ManifestRoot,
    decode_pages,
    decode_root,
    decode_segments,
    encode_page,
    encode_root,
    read_page_ref,
)
from kqueue.tier.formats.segments import TieredSegment

PAGE, PAGE_BYTES = encode_page([entry(0, 5), entry(5, 9)], 0)
ROOT = ManifestRoot(
    ORDERS,
    sequence=4,
    leader_epoch=2,
    levels=((PAGE,),),
    segments=(entry(9, 12),),
    copying=(entry(12, 15),),
    deleting=(ORDERS.segment_key(0, "0" * 32),),
    size=1200,
    count=3,
)


def framed(body: bytes) -> bytes:
    return b"kqueue-manifest 1 crc32c=%08x\n%s" % (crc32c(body), body)


def changed(data: bytes, fields: dict[str, Any]) -> bytes:
    """Return a document with other fields and a right checksum."""
    return framed(json.dumps(json.loads(data.partition(b"\n")[2]) | fields).encode())


@given(
    sequence=st.integers(0, 2**60),
    leader_epoch=st.integers(-1, 2**31 - 1),
    start=st.integers(0, 2**40),
    segments=ordered_entries(),
    split=st.integers(0, 5),
    copying=ordered_entries(max_size=2),
)
def test_root_is_read_as_it_was_written(
    sequence: int,
    leader_epoch: int,
    start: int,
    segments: list[TieredSegment],
    split: int,
    copying: list[TieredSegment],
) -> None:
    levels = ((encode_page(segments[:split], 0)[0],),) if segments[:split] else ()
    root = ManifestRoot(
        ORDERS,
        sequence,
        leader_epoch,
        start,
        start // 2,
        levels,
        tuple(segments[split:]),
        tuple(copying),
        tuple(segment.key(ORDERS) for segment in copying),
        5,
        6,
    )
    assert decode_root(encode_root(root), ORDERS) == root


@given(ordered_entries())
def test_pages_are_read_as_they_were_written(segments: list[TieredSegment]) -> None:
    if segments:
        ref, data = encode_page(segments, 0)
        assert decode_segments(data, ref) == tuple(segments)
        parent, data = encode_page([ref], 1)
        assert decode_pages(data, parent, 1) == (ref,)
        assert (parent.start_offset, parent.end_offset) == (segments[0].start_offset, segments[-1].end_offset)
        assert (parent.segments, parent.size) == (len(segments), sum(segment.size for segment in segments))


def test_any_changed_byte_of_a_document_is_noticed() -> None:
    root = encode_root(ROOT)
    for data, decode in [(root, decode_root), (PAGE_BYTES, lambda data, _: decode_segments(data, PAGE))]:
        for position in range(len(data)):
            wrong = bytearray(data)
            wrong[position] ^= 0x10
            with pytest.raises(TierCorrupt):
                decode(bytes(wrong), ORDERS)
        for size in range(len(data)):
            with pytest.raises(TierCorrupt):
                decode(data[:size], ORDERS)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b"{}", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b'{"size":%s}' % (b"9" * 9999)],
)
def test_body_that_is_no_root_is_refused(body: bytes) -> None:
    with pytest.raises(TierCorrupt, match="the manifest of orders-0"):
        decode_root(framed(body), ORDERS)


SEGMENT = entry(9, 12).to_json()


@pytest.mark.parametrize(
    "fields",
    [
        {"topic": "others"},
        {"topic": "\ud800"},
        {"topic": 5},
        {"topic_id": "short"},
        {"topic_id": uuid_text(bytes(16))},
        {"topic_id": "ä" * 22},
        {"partition": 1},
        {"sequence": -1},
        {"leader_epoch": -2},
        {"leader_epoch": 2**31},
        {"log_start": -1},
        {"removed_below": None},
        {"size": -5},
        {"count": "3"},
        {"levels": [[]]},
        {"levels": [{"pages": []}] * (LEVELS_MAX + 1)},
        {"levels": [{"pages": [list(PAGE)] * 2}]},
        {"levels": [{"pages": [list(PAGE._replace(start_offset=20, end_offset=30))]}]},
        {"levels": [{"pages": [list(PAGE._replace(start_offset=9))]}]},
        {"levels": [{"pages": [list(PAGE)]}, {"pages": [list(PAGE)]}]},
        {"levels": [{"pages": ["a" * 6]}]},
        {"segments": [SEGMENT] * 2},
        {"segments": [entry(3, 12).to_json()]},
        {"segments": [entry(9 + number, 10 + number).to_json() for number in range(LIST_ITEMS_MAX + 1)]},
        {"segments": {}},
        {"copying": [{}]},
        {"deleting": [5]},
        {"deleting": [ORDERS.manifest_key]},
        {"deleting": [ORDERS._replace(partition=1).segment_key(0, "0" * 32)]},
        {"deleting": ["topics"]},
        {"deleting": [f"{ORDERS.prefix}/segments/../../../x"]},
        {"deleting": ["\ud800"]},
        {"deleting": [ORDERS.segment_key(0, "0" * 32)] * (DELETING_MAX + 1)},
    ],
)  # fmt: skip
def test_root_with_a_wrong_field_is_refused_in_a_sentence(fields: dict[str, Any]) -> None:
    decode_root(changed(encode_root(ROOT), {}), ORDERS)
    with pytest.raises(TierCorrupt) as caught:
        decode_root(changed(encode_root(ROOT), fields), ORDERS)
    assert 20 < len(str(caught.value).encode()) < 1000  # encode: no lone surrogates, which no log can write


def test_document_without_a_field_is_refused() -> None:
    for name in json.loads(encode_root(ROOT).partition(b"\n")[2]):
        body = {key: value for key, value in json.loads(encode_root(ROOT).partition(b"\n")[2]).items() if key != name}
        with pytest.raises(TierCorrupt):
            decode_root(framed(json.dumps(body).encode()), ORDERS)


def test_page_of_another_level_offset_or_size_is_refused() -> None:
    upper, upper_bytes = encode_page([PAGE], 1)
    with pytest.raises(TierCorrupt, match="expected level 0, found 1"):
        decode_segments(upper_bytes, upper)
    with pytest.raises(TierCorrupt, match="expected level 2, found 1"):
        decode_pages(upper_bytes, upper, 2)
    for fields in [{"end_offset": 10}, {"size": 7}, {"segments": 1}, {"max_timestamp": 5}, {"object_id": "0" * 32}]:
        with pytest.raises(TierCorrupt, match="expected PageRef"):
            decode_segments(PAGE_BYTES, PAGE._replace(**fields))


def test_page_with_too_many_no_or_unordered_items_is_refused() -> None:
    many = [entry(number, number + 1) for number in range(PAGE_ITEMS + 1)]
    unordered = [entry(5, 9), entry(0, 5)]
    for items in (many, unordered):
        ref, data = encode_page(items, 0)
        with pytest.raises(TierCorrupt):
            decode_segments(data, ref)
    with pytest.raises(TierCorrupt):
        decode_segments(framed(b'{"level":0,"items":[]}'), PAGE)


@pytest.mark.parametrize("values", [None, [], list(PAGE)[:-1], [*PAGE, 1], ["x", 0, 1, 2, 3, 4], [*list(PAGE)[:5], 0]])
def test_reference_that_is_none_is_refused(values: object) -> None:
    with pytest.raises(TierCorrupt, match="a page of the manifest: expected "):
        read_page_ref(values)
