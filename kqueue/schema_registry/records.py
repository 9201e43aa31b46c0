"""Keys and values of `_schemas`, in the bytes of Confluent's registry.

Keys are compact JSON whose members have a fixed order: compaction compares bytes. Values may have
members that are not known here, which are skipped. What is not understood raises, and never stops
a reader: it skips the record.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from kqueue.base.errors import CorruptData
from kqueue.base.text import short_repr
from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.limits import ID_MAX, VERSION_MAX
from kqueue.schema_registry.schema_content import MD5_BYTES, SchemaContent, parse_content

RECORD_BYTES_MAX = 16_000_000


class MalformedRegistryRecord(CorruptData):
    """A record of `_schemas` that is not of its format."""


class UnknownKeyType(KeyError):
    """A record of a kind that this registry does not know; its argument is the kind."""


class SchemaKey(NamedTuple):
    """The key of a version. Its value: SchemaValue; None: deleted permanently."""

    subject: str
    version: int


class ConfigKey(NamedTuple):
    """The key of a config. `subject`: None: of all. Its value: a mapping; None: deleted."""

    subject: str | None


class ModeKey(NamedTuple):
    """The key of a mode. `subject`: None: of all. Its value: a mapping; None: deleted."""

    subject: str | None


class DeleteSubjectKey(NamedTuple):
    """The key of a soft delete. Its value: the highest version that it deletes."""

    subject: str


class ClearSubjectKey(NamedTuple):
    """The key of the order to forget the soft-deleted versions of a subject. Its value: True."""

    subject: str


class NoopKey(NamedTuple):
    """The key of a record without effect, which a registry writes to find the end of the log."""


class ContextKey(NamedTuple):
    """The key of a context that exists. Its value: True; None: deleted."""

    context: str


RecordKey: TypeAlias = SchemaKey | ConfigKey | ModeKey | DeleteSubjectKey | ClearSubjectKey | NoopKey | ContextKey


class SchemaValue(NamedTuple):
    """A version as it is stored.

    Attributes: stored_md5: 16 bytes, with which another registry stored it; None: the content's.
    """

    id: int
    content: SchemaContent
    is_deleted: bool = False
    stored_md5: bytes | None = None


RecordValue: TypeAlias = SchemaValue | Mapping[str, Any] | int | bool | None
_SUBJECT_KEYS: Mapping[str, type[ConfigKey] | type[ModeKey]] = {"CONFIG": ConfigKey, "MODE": ModeKey}


class RegistryRecord(NamedTuple):
    """A record of `_schemas`, understood. The classes of keys say what values they have."""

    key: RecordKey
    value: RecordValue


# --- writing


def encode_key(key: RecordKey) -> bytes:
    """Return the bytes of a key."""
    match key:
        case SchemaKey(subject, version):
            return _json({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})
        case ConfigKey(subject):
            return _json({"keytype": "CONFIG", "subject": subject, "magic": 0})
        case ModeKey(subject):
            return _json({"keytype": "MODE", "subject": subject, "magic": 0})
        case DeleteSubjectKey(subject):
            return _json({"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0})
        case ClearSubjectKey(subject):
            return _json({"keytype": "CLEAR_SUBJECT", "subject": subject, "magic": 0})
        case ContextKey(context):
            return _json({"keytype": "CONTEXT", "tenant": "default", "context": context, "magic": 0})
        case NoopKey():
            return _json({"keytype": "NOOP", "magic": 0})


def encode_value(key: RecordKey, value: RecordValue) -> bytes | None:
    """Return the bytes of a value; None: a tombstone, or a NOOP, which has none."""
    if value is None or isinstance(key, NoopKey):
        return None
    match key:
        case SchemaKey(subject, version):
            assert isinstance(value, SchemaValue)
            return _json(
                {
                    "subject": subject,
                    "version": version,
                    "id": value.id,
                    "md5": base64.b64encode(value.stored_md5 or value.content.md5).decode(),
                    **value.content.fields(),
                    "deleted": value.is_deleted,
                }
            )
        case ConfigKey(subject) | ModeKey(subject):
            assert isinstance(value, Mapping)
            return _json(({} if subject is None else {"subject": subject}) | dict(value))
        case DeleteSubjectKey(subject):
            return _json({"subject": subject, "version": value})
        case ClearSubjectKey(subject):
            return _json({"subject": subject})
        case ContextKey(context):
            return _json({"tenant": "default", "context": context})


def _json(members: Mapping[str, Any]) -> bytes:
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


# --- reading


def decode_record(key: bytes | None, value: bytes | None) -> RegistryRecord:
    """Return what a record says.

    Raises: UnknownKeyType; MalformedRegistryRecord.
    """
    decoded_key = _key(_object(key, "key"))
    if value is None or isinstance(decoded_key, NoopKey):
        return RegistryRecord(decoded_key, None)
    return RegistryRecord(decoded_key, _value(decoded_key, _object(value, "value")))


def _key(fields: Mapping[str, Any]) -> RecordKey:
    key_type = fields.get("keytype")
    match key_type:
        case "NOOP":
            return NoopKey()
        case "SCHEMA":
            return SchemaKey(_subject(fields), _number(fields, "version", 1, VERSION_MAX))
        case "CONFIG" | "MODE":
            return _SUBJECT_KEYS[key_type](None if fields.get("subject") is None else _subject(fields))
        case "DELETE_SUBJECT":
            return DeleteSubjectKey(_subject(fields))
        case "CLEAR_SUBJECT":
            return ClearSubjectKey(_subject(fields))
        case "CONTEXT":
            return ContextKey(_text(fields, "context"))
        case str():
            raise UnknownKeyType(key_type)
    raise MalformedRegistryRecord(f"the key has the keytype {short_repr(key_type)}; expected a string")


def _value(key: RecordKey, fields: Mapping[str, Any]) -> RecordValue:
    match key:
        case SchemaKey():
            try:
                # Not by the limits: a schema that another registry took must be found by its id.
                content = parse_content(fields, None)
            except RegistryError as error:
                raise MalformedRegistryRecord(str(error)) from None
            md5 = _md5(fields.get("md5"))
            return SchemaValue(
                _number(fields, "id", 0, ID_MAX),
                content,
                fields.get("deleted") is True,
                None if md5 == content.md5 else md5,
            )
        case ConfigKey() | ModeKey():
            return {name: part for name, part in fields.items() if name != "subject"}
        case DeleteSubjectKey():
            return _number(fields, "version", 0, VERSION_MAX)
        case _:
            return True


def _object(data: bytes | None, what: str) -> Mapping[str, Any]:
    if data is None:
        raise MalformedRegistryRecord(f"there is no {what}")
    if len(data) > RECORD_BYTES_MAX:
        raise MalformedRegistryRecord(f"the {what} has {len(data):,} bytes, at most {RECORD_BYTES_MAX:,} are read")
    try:
        parsed = json.loads(data)
    except (ValueError, RecursionError):
        raise MalformedRegistryRecord(f"the {what} {short_repr(data)} is no JSON") from None
    if not isinstance(parsed, dict):
        raise MalformedRegistryRecord(f"the {what} is {type(parsed).__name__}; expected an object")
    return parsed


def _md5(stored: object) -> bytes | None:
    """Return the bytes of a stored MD5; None: there is none, or it is not one."""
    if not isinstance(stored, str) or len(stored) > 100:
        return None
    try:
        md5 = base64.b64decode(stored, validate=True)
    except ValueError:
        return None
    return md5 if len(md5) == MD5_BYTES else None


def _subject(fields: Mapping[str, Any]) -> str:
    return _text(fields, "subject")


def _text(fields: Mapping[str, Any], name: str) -> str:
    text = fields.get(name)
    if not isinstance(text, str):
        raise MalformedRegistryRecord(f"{name} is {short_repr(text)}; expected a string")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise MalformedRegistryRecord(f"{name} has half a surrogate pair") from None
    return text


def _number(fields: Mapping[str, Any], name: str, minimum: int, maximum: int) -> int:
    number = fields.get(name)
    if type(number) is not int or not minimum <= number <= maximum:
        raise MalformedRegistryRecord(f"{name} is {short_repr(number)}; expected a number from {minimum} to {maximum}")
    return number
