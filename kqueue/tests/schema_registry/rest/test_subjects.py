from __future__ import annotations

from kqueue.tests.schema_registry.rest.api import ALL_MEMBERS, Api
from kqueue.tests.schema_registry.support import INT, LONG, NOW_MS, STRING, LoggedRegistry, name

NAMED = '{"type":"enum","name":"E","symbols":["A"]}'
USER = {"schema": '{"type":"array","items":"E"}', "references": [{"name": "E", "subject": "e", "version": 1}]}
VERSIONS = "/subjects/a/versions"


def test_schema_is_registered_and_found(api: Api) -> None:
    assert api.answer("POST", VERSIONS, {"schema": STRING}) == {"id": 1}
    assert api.answer("GET", "/subjects") == ["a"]
    assert api.answer("GET", VERSIONS) == [1]
    shown = {"subject": "a", "version": 1, "id": 1, "schema": STRING}
    assert api.answer("GET", f"{VERSIONS}/1") == api.answer("GET", f"{VERSIONS}/latest") == shown
    assert api.answer("POST", "/subjects/a", {"schema": '{"type":"string"}'}) == shown
    assert api.get(f"{VERSIONS}/latest/schema").text == STRING


def test_clients_that_take_all_members_get_guid_type_and_time(api: Api) -> None:
    registered = {"version": 1, "id": 1, "guid": "095d71cf-1255-6b9d-5e33-0ad575b3df5d"}
    assert api.answer("POST", VERSIONS, {"schema": STRING}, headers=ALL_MEMBERS) == registered
    assert api.answer("GET", f"{VERSIONS}/1", headers=ALL_MEMBERS) == {
        "subject": "a",
        **registered,
        "schemaType": "AVRO",
        "schema": STRING,
        "ts": NOW_MS,
        "deleted": False,
    }


def test_any_text_can_be_a_subject(api: Api) -> None:
    for subject, path in (("a/b", "a%2Fb"), ("ü ?", "%C3%BC%20%3F"), (":.c:x:y", ":.c:x:y"), ("%2F", "%252F")):
        api.answer("POST", f"/subjects/{path}/versions", {"schema": INT})
        assert api.answer("GET", f"/subjects/{path}/versions/1")["subject"] == subject


def test_subjects_and_versions_are_shown_as_asked_page_by_page(api: Api) -> None:
    for subject in "cab":
        api.answer("POST", f"/subjects/{subject}/versions", {"schema": INT})
    api.answer("POST", VERSIONS, {"schema": LONG})
    api.answer("DELETE", "/subjects/b")
    api.answer("DELETE", f"{VERSIONS}/1")
    assert api.answer("GET", "/subjects?deleted=true") == ["a", "b", "c"]
    assert api.answer("GET", "/subjects?deletedOnly=true") == ["b"]
    assert api.answer("GET", "/subjects?deleted=true&offset=1&limit=1") == ["b"]
    assert api.answer("GET", "/subjects?offset=-1&limit=-1") == ["a", "c"]
    assert api.answer("GET", "/subjects?subjectPrefix=c") == ["c"]
    assert api.answer("GET", f"{VERSIONS}?deleted=true&limit=1") == [1]
    assert api.answer("GET", f"{VERSIONS}?deletedOnly=true") == [1]
    assert api.answer("GET", f"{VERSIONS}/1?deleted=true")["version"] == 1
    assert api.error("GET", "/subjects?limit=x") == 400


def test_what_is_not_there_has_its_number(api: Api) -> None:
    api.answer("POST", VERSIONS, {"schema": INT})
    assert api.error("GET", "/subjects/b/versions") == 40401
    assert api.error("GET", "/subjects/b/versions/latest") == 40401
    assert api.error("GET", f"{VERSIONS}/2") == 40402
    assert api.error("GET", f"{VERSIONS}/zero") == 42202
    assert api.error("POST", "/subjects/a", {"schema": LONG}) == 40403
    assert api.error("POST", "/subjects/b", {"schema": LONG}) == 40401


def test_what_can_not_be_registered_has_its_number(api: Api) -> None:
    api.answer("POST", VERSIONS, {"schema": STRING})
    assert api.error("POST", VERSIONS, {"schema": INT}) == 409
    assert api.error("POST", VERSIONS, {"schema": "no schema"}) == 42201
    assert api.error("POST", VERSIONS, {"schema": "x", "schemaType": "THRIFT"}) == 42201
    assert api.error("POST", VERSIONS, {"schema": INT, "id": 7}) == 42205
    assert api.error("POST", VERSIONS, {"schema": INT, "id": "7"}) == 400
    assert api.error("POST", VERSIONS, {"schema": INT, "ruleSet": {"domainRules": [{}]}}) == 42210
    assert api.error("POST", VERSIONS, [1]) == 400
    assert api.error("POST", "/subjects/%00/versions", {"schema": INT}) == 42208
    assert api.error("POST", "/subjects/__GLOBAL/versions", {"schema": INT}) == 42208
    assert api.error("POST", "/subjects/%FF/versions", {"schema": INT[:-1]}) == 42201


def test_versions_and_subjects_are_deleted_softly_and_permanently(api: Api) -> None:
    api.answer("POST", VERSIONS, {"schema": INT})
    api.answer("POST", VERSIONS, {"schema": LONG})
    assert api.error("DELETE", f"{VERSIONS}/1?permanent=true") == 40407
    assert api.answer("DELETE", f"{VERSIONS}/1") == 1
    assert api.error("DELETE", f"{VERSIONS}/1") == 40406
    assert api.answer("DELETE", f"{VERSIONS}/1?permanent=true") == 1
    assert api.error("DELETE", "/subjects/a?permanent=true") == 40405
    assert api.answer("DELETE", "/subjects/a") == [2]
    assert api.error("DELETE", "/subjects/a") == 40404
    assert api.answer("DELETE", "/subjects/a?permanent=true") == [2]
    assert api.error("DELETE", "/subjects/a") == 40401


def test_referenced_version_names_who_refers_to_it_and_is_not_deleted(api: Api) -> None:
    api.answer("POST", "/subjects/e/versions", {"schema": NAMED})
    api.answer("POST", VERSIONS, USER)
    assert api.answer("GET", "/subjects/e/versions/1/referencedby") == [2]
    assert api.answer("GET", f"{VERSIONS}/1/referencedby") == []
    assert api.answer("GET", f"{VERSIONS}/1")["references"] == USER["references"]
    assert api.error("DELETE", "/subjects/e") == 42206


def test_formats_and_normalized_texts_are_those_of_the_schema_type(api: Api) -> None:
    api.answer("POST", "/subjects/e/versions", {"schema": NAMED})
    api.answer("POST", VERSIONS, USER)
    assert '"symbols"' in api.answer("GET", f"{VERSIONS}/1?format=resolved")["schema"]
    assert '"symbols"' in api.get(f"{VERSIONS}/1/schema?format=RESOLVED").text
    text = '{"type":"record","name":"R","fields":[],"aliases":["B","A"]}'
    api.answer("POST", "/subjects/r/versions?normalize=true", {"schema": text})
    assert api.answer("POST", "/subjects/r?normalize=true", {"schema": text})["version"] == 1


def test_metadata_and_rules_are_kept_and_the_newest_version_with_properties_is_found(api: Api) -> None:
    for text, owner in ((INT, "x"), (LONG, "y")):
        api.answer("POST", VERSIONS, {"schema": text, "metadata": {"properties": {"owner": owner, "team": "t"}}})
    assert api.answer("GET", f"{VERSIONS}/2")["metadata"] == {"properties": {"owner": "y", "team": "t"}}
    assert api.answer("GET", "/subjects/a/metadata?key=owner&value=x&key=team&value=t")["version"] == 1
    assert api.answer("GET", "/subjects/a/metadata?key=team&value=t")["version"] == 2
    assert api.error("GET", "/subjects/a/metadata?key=owner&value=z") == 40403


def test_alias_stands_for_its_subject(api: Api, registry: LoggedRegistry) -> None:
    api.answer("PUT", "/config/short", {"alias": "a"})
    api.answer("POST", "/subjects/short/versions", {"schema": INT})
    assert api.answer("GET", "/subjects") == ["a"]
    assert api.answer("GET", "/subjects/short/versions/latest")["subject"] == "a"


def test_alias_of_a_name_that_may_not_be_registered_is_refused(api: Api) -> None:
    api.answer("PUT", "/config/short", {"alias": "a\x00"})
    assert api.error("POST", "/subjects/short/versions", {"schema": INT}) == 42208


def test_schemas_are_imported_with_their_ids_and_versions(api: Api, registry: LoggedRegistry) -> None:
    api.answer("PUT", "/mode/a", {"mode": "IMPORT"})
    assert api.error("POST", VERSIONS, {"schema": INT, "id": -1}) == 42205
    assert api.answer("POST", VERSIONS, {"schema": INT, "id": 40, "version": 3}) == {"id": 40}
    assert api.error("POST", VERSIONS, {"schema": LONG, "id": 40}) == 42207
    assert registry.catalog.version(name("a"), "3").id == 40
