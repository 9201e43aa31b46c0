from __future__ import annotations

from kqueue.schema_registry.rest.call import Call
from kqueue.schema_registry.rest.schema_fields import schema_fields, version_fields
from kqueue.tests.schema_registry.support import STRING, LoggedRegistry


def test_version_is_described_by_subject_version_and_id_before_its_schema(registry: LoggedRegistry) -> None:
    version = registry.add("a", STRING)
    assert list(version_fields(Call(registry), version)) == ["subject", "version", "id", "schema"]


def test_time_that_is_not_known_is_left_out(registry: LoggedRegistry) -> None:
    version = registry.add("a", STRING)._replace(timestamp_ms=-1)
    call = Call(registry, headers={"confluent-accept-unknown-properties": "true"})
    assert list(schema_fields(call, version)) == ["guid", "schemaType", "schema", "deleted"]
