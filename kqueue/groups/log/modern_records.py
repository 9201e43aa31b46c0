"""The frame of the records of consumer, share and streams groups in `__consumer_offsets`.

A key is its type, then a group id, then a name where the record is not of the group itself; a value
is its version, 0, then its fields. The types are Kafka's CoordinatorRecordType; each belongs to one
type of groups, which has the codecs of its values (`modern.records`). So this package knows none.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kqueue.base.errors import MalformedMessage
from kqueue.groups.log.consumer_schemas import ModernGroupKey, ModernMemberKey
from kqueue.groups.log.schemas import VERSION
from kqueue.schema import decode, encode

Record = tuple[bytes, bytes | None]
"""Key and value; a value of None is a tombstone."""
GROUP_KEYS = frozenset({3, 4, 6, 11, 12, 15, 17, 20, 23})
NAME_KEYS = frozenset({5, 7, 8, 10, 13, 14, 16, 19, 21, 22})
"""Of members; 16 of patterns, whose key has the same fields under other names."""
KEYS = GROUP_KEYS | NAME_KEYS
_VALUE_VERSION = VERSION.pack(0)


class ModernKey(NamedTuple):
    """A decoded key. `name`: a member id or a pattern; "" in records of the group itself."""

    type: int
    group: str
    name: str = ""


def read_key(type: int, data: bytes | memoryview) -> ModernKey:
    """Return the key of a type in `KEYS`; `data` follows the type. Raises: MalformedMessage."""
    if type in GROUP_KEYS:
        return ModernKey(type, decode(ModernGroupKey, 0, data).group_id)
    named = decode(ModernMemberKey, 0, data)
    return ModernKey(type, named.group_id, named.member_id)


def key(type: int, group_id: str, name: str = "") -> bytes:
    """Return the encoded key of a type in `KEYS`."""
    fields: Any = ModernGroupKey(group_id=group_id)
    if type in NAME_KEYS:
        fields = ModernMemberKey(group_id=group_id, member_id=name)
    return VERSION.pack(type) + encode(fields, 0)


def versioned_value(fields: Any) -> bytes:
    """Return a value: its version, 0, and its fields."""
    return _VALUE_VERSION + encode(fields, 0)


def read_value(kind: type[Any], value: bytes) -> Any:
    """Return the fields of a value. Raises: MalformedMessage: damaged, or of another version."""
    version = VERSION.unpack_from(value)[0] if len(value) >= VERSION.size else None
    if version != 0:
        raise MalformedMessage(f"a {kind.__name__} has version 0, found {version}")
    return decode(kind, 0, memoryview(value)[VERSION.size :])
