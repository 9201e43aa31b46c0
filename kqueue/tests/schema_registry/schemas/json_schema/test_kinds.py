"""The table of cases, which goes through all modules of the comparison."""

from __future__ import annotations

import json

import pytest

from kqueue.schema_registry.schemas import check_compatibility, schema_type
from kqueue.tests.schema_registry.schemas.json_schema.cases import CASES, JsonCase

pytest.importorskip("jsonschema_rs")


@pytest.mark.parametrize("case", CASES, ids=[case.about for case in CASES])
def test_schemas_of_the_table_are_compatible_as_it_says(case: JsonCase) -> None:
    old, new = (schema_type("JSON").parse(json.dumps(one), []) for one in (case.old, case.new))
    verdicts = {level: not check_compatibility(level, new, [old]) for level in ("NONE", "BACKWARD", "FORWARD", "FULL")}
    expected = {
        "NONE": True, "BACKWARD": case.backward, "FORWARD": case.forward, "FULL": case.backward and case.forward,
    }  # fmt: skip
    assert verdicts == expected
    assert tuple(f"{one.kind} {one.path}" for one in new.incompatibilities(old)) == case.kinds


def test_table_has_enough_cases() -> None:
    assert len(CASES) >= 60
