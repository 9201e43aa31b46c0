"""Small JSON documents of a tier, which people may read and programs compare by a checksum.

    {"format": 1, "content": {...}, "crc32c": "xxxxxxxx"}

The checksum is of the content as `json.dumps` writes it with sorted keys and no spaces. Line
breaks and the order of fields do not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from crc32c import crc32c

from kqueue.tier.errors import TierCorrupt
from kqueue.tier.formats.fields import Fields

FORMAT = 1
JSON_BYTES_MAX = 1 << 20


def encode_document(content: Mapping[str, object]) -> bytes:
    """Return the bytes of a document."""
    document = {"format": FORMAT, "content": content, "crc32c": f"{_checksum(content):08x}"}
    return json.dumps(document, indent=1).encode() + b"\n"


def decode_document(data: bytes, name: str) -> Fields:
    """Return the content of a document. Args: name: of the object, for messages.

    Raises: TierCorrupt: it is damaged, something else, or of a later format.
    """
    if len(data) > JSON_BYTES_MAX:
        raise TierCorrupt(f"{name}: expected {JSON_BYTES_MAX} bytes or fewer, found {len(data)}")
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise TierCorrupt(f"{name} is no JSON: {error}") from None
    fields = Fields(document, name)
    found = fields.number("format")
    if found != FORMAT:
        raise TierCorrupt(f"{name}: expected format {FORMAT}, found {found}: read it with a later version of kqueue")
    content = document.get("content")
    if not isinstance(content, dict) or _checksum(content) != fields.hexadecimal("crc32c"):
        raise TierCorrupt(f"{name}: its checksum is wrong")
    return Fields(content, name)


def _checksum(content: Mapping[str, object]) -> int:
    return crc32c(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
