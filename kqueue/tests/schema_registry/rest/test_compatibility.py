from __future__ import annotations

from kqueue.tests.schema_registry.rest.api import Api
from kqueue.tests.schema_registry.support import INT, LONG, STRING

PATH = "/compatibility/subjects/a/versions"


def test_schema_is_compared_and_not_registered(api: Api) -> None:
    api.answer("POST", "/subjects/a/versions", {"schema": INT})
    assert api.answer("POST", PATH, {"schema": LONG}) == {"is_compatible": True}
    assert api.answer("POST", f"{PATH}/latest", {"schema": STRING}) == {"is_compatible": False}
    assert api.answer("POST", f"{PATH}/1?verbose=true", {"schema": LONG}) == {"is_compatible": True, "messages": []}
    assert "TYPE_MISMATCH" in api.answer("POST", f"{PATH}?verbose=true", {"schema": STRING})["messages"][0]
    assert api.answer("GET", "/subjects/a/versions") == [1]


def test_what_can_not_be_compared_has_its_number(api: Api) -> None:
    api.answer("POST", "/subjects/a/versions", {"schema": INT})
    assert api.error("POST", f"{PATH}/2", {"schema": INT}) == 40402
    assert api.error("POST", f"{PATH}/x", {"schema": INT}) == 42202
    assert api.error("POST", PATH, {"schema": "no schema"}) == 42201
    assert api.answer("POST", "/compatibility/subjects/b/versions/latest", {"schema": INT}) == {"is_compatible": True}
