from __future__ import annotations

from kqueue.schema_registry.limits import DEFAULT_LIMITS
from kqueue.tests.schema_registry.rest.api import Api, serving
from kqueue.tests.schema_registry.support import LoggedRegistry


def test_head_is_get_without_the_body(api: Api) -> None:
    response = api.head("/mode")
    assert (response.status_code, response.content) == (200, b"")
    assert response.headers["content-length"] == str(len(api.get("/mode").content))
    assert api.head("/subjects/a/versions").status_code == 404


def test_options_and_wrong_methods_name_the_methods(api: Api) -> None:
    response = api.options("/subjects/a")
    assert (response.status_code, response.headers["allow"]) == (200, "DELETE, OPTIONS, POST")
    response = api.get("/subjects/a")
    assert (response.status_code, response.json()["error_code"]) == (405, 405)
    assert response.headers["allow"] == "DELETE, OPTIONS, POST"
    assert api.request("BREW", "/mode").status_code == 405


def test_body_beyond_the_bound_is_refused() -> None:
    registry = LoggedRegistry(limits=DEFAULT_LIMITS._replace(body_bytes_max=100))
    with serving(registry) as api:
        assert api.error("PUT", "/config", {"compatibility": "NONE", "x": "y" * 100}) == 413
        assert api.answer("PUT", "/config", {"compatibility": "NONE"})
