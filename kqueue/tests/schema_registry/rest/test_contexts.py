from __future__ import annotations

from kqueue.schema_registry.rest.contexts import path_in_context
from kqueue.tests.schema_registry.rest.api import Api
from kqueue.tests.schema_registry.support import INT, LONG
from kqueue.tests.tables import for_each


@for_each(
    "path, query, changed_path, changed_query",
    [
        ("/subjects", "a=b", "/subjects", "a=b"),
        ("/contexts", "", "/contexts", ""),
        ("/contexts/.c", "", "/contexts/.c", ""),
        ("/contexts/.c/subjects", "", "/subjects", "subjectPrefix=%3A.c%3A"),
        ("/contexts/.c/subjects", "subjectPrefix=a&deleted=true", "/subjects", "deleted=true&subjectPrefix=%3A.c%3Aa"),
        ("/contexts/.c/subjects/a%2Fb/versions/1", "", "/subjects/%3A.c%3Aa%2Fb/versions/1", ""),
        ("/contexts/c/subjects/a", "", "/subjects/%3A.c%3Aa", ""),
        ("/contexts/%3A.c%3A/subjects/a", "", "/subjects/%3A.c%3Aa", ""),
        ("/contexts/.c/subjects/:.d:a", "", "/subjects/%3A.d%3Aa", ""),
        ("/contexts/.c/schemas", "", "/schemas", "subjectPrefix=%3A.c%3A"),
        ("/contexts/.c/schemas/ids/1", "", "/schemas/ids/1", "subject=%3A.c%3A"),
        ("/contexts/.c/schemas/ids/1", "subject=a", "/schemas/ids/1", "subject=%3A.c%3Aa"),
        ("/contexts/.c/config", "", "/config/%3A.c%3A", ""),
        ("/contexts/.c/mode/a", "x", "/mode/%3A.c%3Aa", "x"),
        ("/contexts/.c/compatibility/subjects/a/versions", "", "/compatibility/subjects/%3A.c%3Aa/versions", ""),
        ("/contexts/.c/other", "", "/other", ""),
    ],
)
def test_path_below_a_context_names_it_in_the_subject(
    path: str, query: str, changed_path: str, changed_query: str
) -> None:
    assert path_in_context(path, query) == (changed_path, changed_query)


def test_whole_api_can_be_used_below_a_context(api: Api) -> None:
    api.answer("POST", "/subjects/a/versions", {"schema": INT})
    api.answer("POST", "/contexts/.c/subjects/a/versions", {"schema": LONG})
    assert api.answer("GET", "/contexts") == [".", ".c"]
    assert api.answer("GET", "/contexts/.c/subjects") == [":.c:a"]
    assert api.answer("GET", "/contexts/.c/schemas/ids/1")["schema"] == LONG
    assert api.answer("GET", "/contexts/.c/subjects/a/versions") == [1]
    api.answer("PUT", "/contexts/.c/config", {"compatibility": "NONE"})
    assert api.answer("GET", "/config/:.c:a?defaultToGlobal=true") == {"compatibilityLevel": "NONE"}
    assert api.answer("GET", "/config/:.c:") == {"compatibilityLevel": "NONE"}
    assert api.answer("GET", "/config") == {"compatibilityLevel": "BACKWARD"}
