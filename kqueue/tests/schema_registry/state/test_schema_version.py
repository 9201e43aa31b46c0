from __future__ import annotations

from kqueue.schema_registry.records import SchemaValue
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.tests.schema_registry.support import content, name


def test_guid_is_the_md5_of_the_content_or_the_stored_one() -> None:
    version = SchemaVersion(name("a"), 1, 7, content())
    assert version.guid == "095d71cf-1255-6b9d-5e33-0ad575b3df5d"
    assert version._replace(stored_md5=bytes(16)).guid == "00000000-0000-0000-0000-000000000000"


def test_stored_value_has_the_stored_md5() -> None:
    version = SchemaVersion(name("a"), 1, 7, content(), stored_md5=bytes(16))
    assert version.value(is_deleted=True) == SchemaValue(7, content(), True, bytes(16))
