from __future__ import annotations

import json

import pytest

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.json_document import JSON_BYTES_MAX, decode_document, encode_document

CONTENT = {"name": "orders", "number": 7, "pairs": {"a": "b"}}


def test_content_is_read_back() -> None:
    fields = decode_document(encode_document(CONTENT), "a document")
    assert fields.text("name") == "orders"
    assert fields.number("number") == 7
    assert fields.texts("pairs", maximum=1) == {"a": "b"}
    assert "number" in fields
    assert "other" not in fields


def test_document_may_be_formatted_otherwise() -> None:
    document = json.loads(encode_document(CONTENT))
    compact = json.dumps(dict(reversed(document.items())), separators=(",", ":")).encode()
    assert decode_document(compact, "a document").number("number") == 7


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is no JSON"),
        (b"[" * 100_000, "is no JSON"),
        (b"9" * 10_000, "is no JSON"),
        (b"[]", "expected a JSON object"),
        (b"{}", "as 'format'"),
        (b'{"format": 2}', "later version of kqueue"),
        (b'{"format": 1, "content": [], "crc32c": "00000000"}', "checksum is wrong"),
        (b'{"format": 1, "content": {}, "crc32c": "5"}', "eight hexadecimal digits"),
        (encode_document(CONTENT).replace(b"7", b"8", 1), "checksum is wrong"),
        (b" " * (JSON_BYTES_MAX + 1), "bytes or fewer"),
    ],
)
def test_damaged_document_is_refused(data: bytes, expected: str) -> None:
    with pytest.raises(TierCorrupt, match=expected):
        decode_document(data, "a document")


@pytest.mark.parametrize("pairs", [{"a": 1}, {"a": "1", "b": "2"}, ["a"], None])
def test_other_values_than_strings_are_refused(pairs: object) -> None:
    fields = decode_document(encode_document({"pairs": pairs}), "a document")
    with pytest.raises(TierCorrupt, match="at most 1 strings"):
        fields.texts("pairs", maximum=1)
