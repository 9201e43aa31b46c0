"""The distinguished name of a certificate, as Java writes it, and when the certificate expires.

A reader of DER that goes no further than it must: a certificate's subject, the end of its validity,
and the bytes of its alternative names. OpenSSL has checked the certificate before. Source: RFC
5280, RFC 2253, Java's X500Principal.getName.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.25": "DC",
    "0.9.2342.19200300.100.1.1": "UID",
}
_ALTERNATIVE_NAMES = "2.5.29.17"
_TEXT_TAGS = frozenset({0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E})
_SPECIAL = frozenset(',=+<>#;"\\')
_VERSION, _EXTENSIONS, _IDENTIFIER = 0xA0, 0xA3, 0x06
_UTC_TIME = 0x17


class _Item(NamedTuple):
    """One DER value: its tag, its content, and all of its bytes."""

    tag: int
    content: bytes
    whole: bytes


def subject_of(certificate: bytes) -> str:
    """Return the subject of a DER certificate: ``CN=ann,OU=x,O=y``, the most specific part first.

    Raises: ValueError: these bytes are no certificate.
    """
    parts = [_relative_name(part.content) for part in _items(_fields(certificate)[4].content)]
    return ",".join(reversed(parts))


def alternative_names_of(certificate: bytes) -> frozenset[bytes]:
    """Return the alternative names of a DER certificate, each as its DER.

    Raises: ValueError: these bytes are no certificate.
    """
    for field in _fields(certificate):
        if field.tag == _EXTENSIONS:
            for extension in _items(_one(field.content).content):
                name, *_, value = _items(extension.content)
                if _identifier(name.content) == _ALTERNATIVE_NAMES:
                    return frozenset(item.whole for item in _items(_one(value.content).content))
    return frozenset()


def end_of(certificate: bytes) -> datetime:
    """Return the last second in which a DER certificate is valid.

    Raises: ValueError: these bytes are no certificate.
    """
    _, end = _items(_fields(certificate)[3].content)
    text = end.content.decode("ascii")
    if end.tag == _UTC_TIME:  # its years have two digits: from 1950 to 2049
        text = ("19" if text >= "50" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC)


def _fields(certificate: bytes) -> list[_Item]:
    """Return the fields of the signed part: serial, algorithm, issuer, validity, subject, ..."""
    signed = next(_items(_one(certificate).content), None)
    fields = [] if signed is None else [item for item in _items(signed.content) if item.tag != _VERSION]
    if len(fields) < 5:
        raise ValueError("no certificate")
    return fields


def _relative_name(content: bytes) -> str:
    return "+".join(_attribute(item.content) for item in _items(content))


def _attribute(content: bytes) -> str:
    identifier, value = _items(content)
    name = _identifier(identifier.content)
    keyword = _KEYWORDS.get(name)
    if keyword is None or value.tag not in _TEXT_TAGS:
        return f"{keyword or name}=#{value.whole.hex()}"
    return f"{keyword}={_escaped(value.content.decode('utf-8', 'replace'))}"


def _escaped(text: str) -> str:
    body = text.strip(" \r")
    lead = len(text) - len(text.lstrip(" \r")) if body else len(text)
    written = ["\\" + char if char in _SPECIAL else "\\00" if char == "\0" else char for char in body]
    tail = text[lead + len(body) :]
    return "".join(["\\" + char for char in text[:lead]] + written + ["\\" + char for char in tail])


def _one(data: bytes) -> _Item:
    item = next(_items(data), None)
    if item is None:
        raise ValueError("no certificate")
    return item


def _items(data: bytes) -> Iterator[_Item]:
    position = 0
    while position < len(data):
        start = position
        if len(data) - position < 2:
            raise ValueError("a value is cut short")
        tag, size = data[position], data[position + 1]
        position += 2
        if size & 0x80:
            count = size & 0x7F
            size = int.from_bytes(data[position : position + count], "big")
            position += count
        if size > len(data) - position:
            raise ValueError("a value is cut short")
        position += size
        yield _Item(tag, data[position - size : position], data[start:position])


def _identifier(content: bytes) -> str:
    numbers, number = [], 0
    for byte in content:
        number = number << 7 | byte & 0x7F
        if not byte & 0x80:
            numbers.append(number)
            number = 0
    if not numbers:
        raise ValueError("an object identifier is empty")
    first = min(numbers[0] // 40, 2)
    return ".".join(str(part) for part in (first, numbers[0] - 40 * first, *numbers[1:]))
