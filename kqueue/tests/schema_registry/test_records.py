from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kqueue.schema_registry import records
from kqueue.schema_registry.records import (
    ClearSubjectKey,
    ConfigKey,
    ContextKey,
    DeleteSubjectKey,
    MalformedRegistryRecord,
    ModeKey,
    NoopKey,
    RegistryRecord,
    SchemaKey,
    SchemaValue,
    UnknownKeyType,
    decode_record,
    encode_key,
    encode_value,
)
from kqueue.schema_registry.schema_content import SchemaContent, SchemaReference
from kqueue.tests.schema_registry.support import content
from kqueue.tests.tables import for_each

SCHEMA = SchemaContent("JSON", '{"é":1}', (SchemaReference("n", ":.c:s", 3),), {"properties": {"a": "b"}}, {})
RECORDS = [
    (
        SchemaKey("orders", 2),
        SchemaValue(7, content()),
        b'{"keytype":"SCHEMA","subject":"orders","version":2,"magic":1}',
        b'{"subject":"orders","version":2,"id":7,"md5":"CV1xzxJVa51eMwrVdbPfXQ==","schema":"\\"string\\"","deleted":false}',
    ),
    (SchemaKey("orders", 2), None, b'{"keytype":"SCHEMA","subject":"orders","version":2,"magic":1}', None),
    (
        ConfigKey(None),
        {"compatibilityLevel": "FULL"},
        b'{"keytype":"CONFIG","subject":null,"magic":0}',
        b'{"compatibilityLevel":"FULL"}',
    ),
    (
        ConfigKey("ü"),
        {"compatibilityLevel": "NONE"},
        '{"keytype":"CONFIG","subject":"ü","magic":0}'.encode(),
        '{"subject":"ü","compatibilityLevel":"NONE"}'.encode(),
    ),
    (ModeKey(None), {"mode": "IMPORT"}, b'{"keytype":"MODE","subject":null,"magic":0}', b'{"mode":"IMPORT"}'),
    (
        DeleteSubjectKey("orders"),
        3,
        b'{"keytype":"DELETE_SUBJECT","subject":"orders","magic":0}',
        b'{"subject":"orders","version":3}',
    ),
    (
        ClearSubjectKey("orders"),
        True,
        b'{"keytype":"CLEAR_SUBJECT","subject":"orders","magic":0}',
        b'{"subject":"orders"}',
    ),
    (
        ContextKey(".c"),
        True,
        b'{"keytype":"CONTEXT","tenant":"default","context":".c","magic":0}',
        b'{"tenant":"default","context":".c"}',
    ),
    (NoopKey(), None, b'{"keytype":"NOOP","magic":0}', None),
]


@for_each("key, value, key_bytes, value_bytes", RECORDS)
def test_record_has_the_bytes_of_confluents_registry_and_is_read_back(
    key: Any, value: Any, key_bytes: bytes, value_bytes: bytes | None
) -> None:
    assert encode_key(key) == key_bytes
    assert encode_value(key, value) == value_bytes
    assert decode_record(key_bytes, value_bytes) == RegistryRecord(key, value)


def test_schema_with_all_its_parts_is_read_back() -> None:
    key, value = SchemaKey(":.c:s", 1), SchemaValue(0, SCHEMA, is_deleted=True)
    data = encode_value(key, value)
    assert data is not None
    assert list(json.loads(data)) == [
        "subject", "version", "id", "md5", "schemaType", "references", "metadata", "ruleSet", "schema", "deleted",
    ]  # fmt: skip
    assert decode_record(encode_key(key), data) == RegistryRecord(key, value)


def test_members_in_another_order_and_members_that_are_unknown_are_read() -> None:
    key = b'{"subject":"s","version":1,"magic":0,"keytype":"SCHEMA"}'
    value = b'{"schema":"\\"string\\"","id":4,"version":1,"subject":"s","new":[1],"deleted":null}'
    assert decode_record(key, value) == RegistryRecord(SchemaKey("s", 1), SchemaValue(4, content()))


def test_md5_of_another_registry_is_kept_and_written_again() -> None:
    key, other = SchemaKey("s", 1), bytes(range(16))
    data = encode_value(key, SchemaValue(4, content(), stored_md5=other))
    assert decode_record(encode_key(key), data) == RegistryRecord(key, SchemaValue(4, content(), stored_md5=other))
    for md5 in ("", "x", "AAAA", "A" * 1000, 7, "é"):
        value = json.dumps({"id": 4, "schema": content().text, "md5": md5}).encode()
        assert decode_record(encode_key(key), value) == RegistryRecord(key, SchemaValue(4, content()))


def test_unknown_keytype_is_named() -> None:
    with pytest.raises(UnknownKeyType, match="EXPORTER"):
        decode_record(b'{"keytype":"EXPORTER","magic":0}', b"{}")


SCHEMA_KEY = b'{"keytype":"SCHEMA","subject":"s","version":1,"magic":1}'


@for_each(
    "key, value",
    [
        (None, b"{}"),
        (b"", b"{}"),
        (b"\xff", None),
        (b"[" * 100_000, None),
        (b"[]", None),
        (b"{}", None),
        (b'{"keytype":7}', None),
        (b'{"keytype":"SCHEMA","subject":null,"version":1}', None),
        (b'{"keytype":"SCHEMA","subject":"\\ud800","version":1}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":0}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":true}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":2147483648}', None),
        (b'{"keytype":"SCHEMA","subject":"s","version":1e9}', None),
        (b'{"keytype":"DELETE_SUBJECT","subject":7}', None),
        (SCHEMA_KEY, b""),
        (SCHEMA_KEY, b"null"),
        (SCHEMA_KEY, b"{}"),
        (SCHEMA_KEY, b'{"id":1}'),
        (SCHEMA_KEY, b'{"id":-1,"schema":"x"}'),
        (SCHEMA_KEY, b'{"id":1,"schema":"x","references":[{"name":1}]}'),
        (SCHEMA_KEY, b'{"id":1,"schema":"x","metadata":[]}'),
        (b'{"keytype":"MODE","subject":null}', b"[]"),
        (b'{"keytype":"DELETE_SUBJECT","subject":"s"}', b'{"version":-1}'),
    ],
)
def test_hostile_record_is_malformed(key: bytes | None, value: bytes | None) -> None:
    with pytest.raises(MalformedRegistryRecord):
        decode_record(key, value)


def test_huge_number_of_digits_is_malformed() -> None:
    with pytest.raises(MalformedRegistryRecord):
        decode_record(b'{"keytype":"SCHEMA","subject":"s","version":' + b"9" * 5000 + b"}", None)


def test_record_beyond_the_bound_is_malformed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "RECORD_BYTES_MAX", 100)
    with pytest.raises(MalformedRegistryRecord, match="at most 100"):
        decode_record(SCHEMA_KEY, b"x" * 101)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
NAMES = st.sampled_from(
    ["keytype", "subject", "version", "id", "schema", "references", "metadata", "ruleSet", "mode", "deleted", "context"]
)
VALUES = JSON | st.sampled_from(["SCHEMA", "CONFIG", "MODE", "DELETE_SUBJECT", "CLEAR_SUBJECT", "CONTEXT", "s", 1])
OBJECTS = st.dictionaries(NAMES, VALUES).map(lambda members: json.dumps(members).encode())


@given(OBJECTS | st.binary(max_size=20), st.none() | OBJECTS | st.binary(max_size=20))
def test_any_bytes_are_a_record_or_refused(key: bytes, value: bytes | None) -> None:
    try:
        decoded = decode_record(key, value)
    except (UnknownKeyType, MalformedRegistryRecord):
        return
    again = encode_value(decoded.key, decoded.value)
    assert decode_record(encode_key(decoded.key), again) == decoded
