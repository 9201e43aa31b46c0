from __future__ import annotations

import pytest

from kqueue.schema_registry.schemas import schema_type
from kqueue.schema_registry.schemas.protobuf.built_in import TEXTS

pytest.importorskip("google.protobuf")
PROTOBUF = schema_type("PROTOBUF")


@pytest.mark.parametrize("path", TEXTS)
def test_file_is_valid_and_can_be_imported(path: str) -> None:
    PROTOBUF.parse(f'syntax = "proto3"; import "{path}"; message M {{ int32 a = 1; }}', [])
    PROTOBUF.parse(TEXTS[path], [])
