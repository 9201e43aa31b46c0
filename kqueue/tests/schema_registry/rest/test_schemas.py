from __future__ import annotations

import pytest

from kqueue.tests.schema_registry.rest.api import ALL_MEMBERS, Api
from kqueue.tests.schema_registry.support import INT, LONG, NOW_MS, STRING

GUID = "095d71cf-1255-6b9d-5e33-0ad575b3df5d"


@pytest.fixture
def filled(api: Api) -> Api:
    for subject, text in (("a", STRING), ("b", STRING), (":.c:a", LONG), ("d", INT)):
        api.answer("POST", f"/subjects/{subject}/versions", {"schema": text})
    return api


def test_schema_of_an_id_is_shown_with_its_text(filled: Api) -> None:
    assert filled.answer("GET", "/schemas/ids/1") == {"schema": STRING}
    assert filled.get("/schemas/ids/1/schema").text == STRING
    assert filled.answer("GET", "/schemas/ids/1?fetchMaxId=true") == {"schema": STRING, "maxId": 2}
    assert filled.answer("GET", "/schemas/ids/1", headers=ALL_MEMBERS) == {
        "guid": GUID,
        "schemaType": "AVRO",
        "schema": STRING,
        "ts": NOW_MS,
        "deleted": False,
    }


def test_id_is_looked_for_in_the_context_of_a_subject(filled: Api) -> None:
    assert filled.answer("GET", "/schemas/ids/1?subject=:.c:a") == {"schema": LONG}
    assert filled.answer("GET", "/schemas/ids/1?subject=:.c:&fetchMaxId=true") == {"schema": LONG, "maxId": 1}
    assert filled.error("GET", "/schemas/ids/2?subject=:.c:a") == 40403


def test_subjects_and_versions_of_an_id_are_listed(filled: Api) -> None:
    filled.answer("DELETE", "/subjects/b")
    assert filled.answer("GET", "/schemas/ids/1/subjects") == ["a"]
    assert filled.answer("GET", "/schemas/ids/1/subjects?deleted=true") == ["a", "b"]
    assert filled.answer("GET", "/schemas/ids/1/versions") == [{"subject": "a", "version": 1}]
    assert filled.answer("GET", "/schemas/ids/1/versions?deleted=true&subject=b") == [{"subject": "b", "version": 1}]
    assert filled.answer("GET", "/schemas/ids/1/versions?subject=:.c:") == [{"subject": ":.c:a", "version": 1}]


def test_id_of_a_soft_deleted_version_is_still_known_and_of_a_deleted_one_is_not(filled: Api) -> None:
    filled.answer("DELETE", "/subjects/d")
    assert filled.answer("GET", "/schemas/ids/2") == {"schema": INT}
    assert filled.answer("GET", "/schemas/ids/2/subjects") == []
    filled.answer("DELETE", "/subjects/d?permanent=true")
    assert filled.error("GET", "/schemas/ids/2") == 40403
    assert filled.error("GET", "/schemas/ids/2/versions") == 40403


def test_what_is_no_id_is_no_resource(filled: Api) -> None:
    for text in ("x", "-1", "9" * 100, "2147483648", "%D9%A3"):
        assert filled.error("GET", f"/schemas/ids/{text}") == 404
    assert filled.error("GET", "/schemas/ids/0") == 40403


def test_schema_of_a_guid_is_shown_with_its_ids(filled: Api) -> None:
    assert filled.answer("GET", f"/schemas/guids/{GUID}") == {"schema": STRING}
    assert filled.answer("GET", f"/schemas/guids/{GUID.upper()}/ids") == [{"context": ".", "id": 1}]
    assert filled.error("GET", "/schemas/guids/none") == 40403
    assert filled.error("GET", "/schemas/guids/none/ids") == 40403


def test_versions_of_all_subjects_are_listed_page_by_page(filled: Api) -> None:
    filled.answer("POST", "/subjects/d/versions", {"schema": LONG})

    def listed(query: str) -> list[tuple[str, int]]:
        return [(one["subject"], one["version"]) for one in filled.answer("GET", f"/schemas?{query}")]

    assert listed("") == [("a", 1), ("b", 1), ("d", 1), ("d", 2), (":.c:a", 1)]
    assert listed("latestOnly=true&subjectPrefix=d") == [("d", 2)]
    assert listed("offset=1&limit=2") == [("b", 1), ("d", 1)]
    filled.answer("DELETE", "/subjects/d/versions/1")
    assert listed("subjectPrefix=d&deleted=true") == [("d", 1), ("d", 2)]
    assert listed("subjectPrefix=d") == [("d", 2)]


def test_types_are_listed(api: Api) -> None:
    assert set(api.answer("GET", "/schemas/types")) == {"JSON", "PROTOBUF", "AVRO"}
