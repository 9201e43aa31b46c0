from __future__ import annotations

from kqueue.tests.schema_registry.rest.api import Api


def test_config_of_all_is_set_shown_and_deleted(api: Api) -> None:
    assert api.answer("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
    assert api.answer("PUT", "/config", {"compatibility": "full"}) == {"compatibility": "FULL"}
    assert api.answer("GET", "/config") == {"compatibilityLevel": "FULL"}
    assert api.answer("DELETE", "/config") == {"compatibilityLevel": "FULL"}
    assert api.answer("GET", "/config") == {"compatibilityLevel": "BACKWARD"}


def test_config_of_a_subject_is_its_own_unless_asked_for_what_holds(api: Api) -> None:
    assert api.error("GET", "/config/a") == 40408
    assert api.answer("GET", "/config/a?defaultToGlobal=true") == {"compatibilityLevel": "BACKWARD"}
    api.answer("PUT", "/config/a", {"compatibility": "NONE", "normalize": True, "unknown": 1})
    assert api.answer("GET", "/config/a") == {"normalize": True, "compatibilityLevel": "NONE"}
    assert api.answer("PUT", "/config/a", {"normalize": None}) == {}
    assert api.answer("GET", "/config/a") == {"compatibilityLevel": "NONE"}
    assert api.answer("DELETE", "/config/a") == {"compatibilityLevel": "NONE"}
    assert api.error("DELETE", "/config/a") == 40401


def test_default_context_by_name_is_that_of_all(api: Api) -> None:
    api.answer("PUT", "/config/:.:", {"compatibility": "NONE"})
    assert api.answer("GET", "/config") == {"compatibilityLevel": "NONE"}


def test_wrong_configs_have_their_number(api: Api) -> None:
    assert api.error("PUT", "/config", {"compatibility": "SIDEWARDS"}) == 42203
    assert api.error("PUT", "/config", {"normalize": 1}) == 400
    assert api.error("PUT", "/config") == 400
    assert api.error("PUT", "/config/%0A", {"compatibility": "NONE"}) == 42208
