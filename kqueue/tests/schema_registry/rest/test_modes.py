from __future__ import annotations

from kqueue.tests.schema_registry.rest.api import Api
from kqueue.tests.schema_registry.support import INT


def test_mode_of_all_is_set_shown_and_deleted(api: Api) -> None:
    assert api.answer("GET", "/mode") == {"mode": "READWRITE"}
    assert api.answer("PUT", "/mode", {"mode": "readonly"}) == {"mode": "READONLY"}
    assert api.error("POST", "/subjects/a/versions", {"schema": INT}) == 42205
    assert api.answer("DELETE", "/mode") == {"mode": "READONLY"}
    assert api.answer("GET", "/mode") == {"mode": "READWRITE"}


def test_mode_of_a_subject_is_its_own_unless_asked_for_what_holds(api: Api) -> None:
    assert api.error("GET", "/mode/a") == 40409
    assert api.answer("GET", "/mode/a?defaultToGlobal=true") == {"mode": "READWRITE"}
    api.answer("PUT", "/mode/a", {"mode": "IMPORT"})
    assert api.answer("GET", "/mode/a") == {"mode": "IMPORT"}
    assert api.answer("DELETE", "/mode/a") == {"mode": "IMPORT"}
    assert api.error("DELETE", "/mode/a") == 40401


def test_import_over_schemas_needs_force(api: Api) -> None:
    api.answer("POST", "/subjects/a/versions", {"schema": INT})
    assert api.error("PUT", "/mode/a", {"mode": "IMPORT"}) == 42205
    assert api.answer("PUT", "/mode/a?force=true", {"mode": "IMPORT"}) == {"mode": "IMPORT"}


def test_wrong_modes_have_their_number(api: Api) -> None:
    assert api.error("PUT", "/mode", {"mode": "WRITEONLY"}) == 42204
    assert api.error("PUT", "/mode", {}) == 42204
    assert api.error("PUT", "/mode", "READONLY") == 400
