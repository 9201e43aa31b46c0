from __future__ import annotations

from kqueue.groups.log import modern_records, records
from kqueue.groups.log.modern_records import ModernKey
from kqueue.tests.tables import for_each


@for_each("type", sorted(modern_records.KEYS))
def test_keys_of_all_types_are_read_as_they_were_written(type: int) -> None:
    name = "m" if type in modern_records.NAME_KEYS else ""
    key = modern_records.key(type, "g", name)
    assert key == type.to_bytes(2, "big") + b"\0\1g" + (b"\0\1m" if name else b"")
    assert records.read_key(key) == ModernKey(type, "g", name)


def test_keys_of_types_that_are_not_supported_are_read_over() -> None:
    assert records.read_key(b"\0\x09\0\1g") is None
