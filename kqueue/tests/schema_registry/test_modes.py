from __future__ import annotations

import pytest

from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.modes import effective_mode, parse_mode
from kqueue.tests.tables import for_each


@for_each("given", ["READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD", "import"])
def test_modes_are_read_in_any_case(given: str) -> None:
    assert parse_mode(given) == given.upper()


@for_each("given", [None, 7, "", "WRITEONLY", "x" * 1000])
def test_other_modes_are_refused(given: object) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_mode(given)
    assert caught.value.code == 42204
    assert len(str(caught.value)) < 300


def test_nearest_mode_holds_unless_a_wider_one_overrides() -> None:
    assert effective_mode([None, None], "READWRITE") == "READWRITE"
    assert effective_mode(["IMPORT", "READONLY"], "READWRITE") == "IMPORT"
    assert effective_mode(["READWRITE", "READONLY_OVERRIDE"], "READWRITE") == "READONLY_OVERRIDE"


def test_mode_of_a_later_version_does_not_hold() -> None:
    assert effective_mode(["NEW", "READONLY"], "READWRITE") == "READONLY"
