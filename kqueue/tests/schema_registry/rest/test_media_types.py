from __future__ import annotations

import pytest

from kqueue.schema_registry.errors import RegistryError
from kqueue.schema_registry.rest.media_types import V1_JSON, check_content_type, chosen_type
from kqueue.tests.tables import for_each

JSON = "application/json"
UNVERSIONED = "application/vnd.schemaregistry+json"


@for_each(
    "accept, chosen",
    [
        (None, V1_JSON),
        ("", V1_JSON),
        ("*/*", V1_JSON),
        ("application/*", V1_JSON),
        (JSON, JSON),
        (f"{V1_JSON}, {UNVERSIONED}, {JSON}", V1_JSON),
        (f"{V1_JSON};q=0.1, {UNVERSIONED}; q=0.9, {JSON};q=0.5", UNVERSIONED),
        (f"text/html, {JSON};q=0.2", JSON),
        (f"*/*;q=0.1, {JSON}", JSON),
        ("APPLICATION/JSON; charset=utf-8", JSON),
    ],
)
def test_answer_has_the_type_that_the_client_prefers(accept: str | None, chosen: str) -> None:
    assert chosen_type(accept) == chosen


@for_each("accept", ["text/html", f"{JSON};q=0", f"{JSON};q=x", ";;;", "," * 100_000, "*/*;q=0"])
def test_type_that_no_answer_has_is_refused(accept: str) -> None:
    with pytest.raises(RegistryError) as caught:
        chosen_type(accept)
    assert caught.value.status == 406
    assert len(str(caught.value)) < 500


def test_bodies_are_json_of_any_of_the_names() -> None:
    for given in (None, V1_JSON, UNVERSIONED, JSON, "application/octet-stream", "Application/Json; charset=utf-8"):
        check_content_type(given)
    with pytest.raises(RegistryError) as caught:
        check_content_type("text/html" * 1000)
    assert caught.value.status == 415
    assert len(str(caught.value)) < 500
