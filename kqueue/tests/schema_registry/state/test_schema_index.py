from __future__ import annotations

from kqueue.schema_registry.state.schema_index import SchemaIndex
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.tests.schema_registry.support import INT, STRING, content, name


def version(subject: str, number: int, schema_id: int, text: str = STRING) -> SchemaVersion:
    return SchemaVersion(name(subject), number, schema_id, content(text))


def filled() -> SchemaIndex:
    index = SchemaIndex()
    for one in (version("a", 1, 1), version("b", 1, 1), version("b", 2, 5, INT), version(":.c:a", 1, 9)):
        index.add(one)
    return index


def test_versions_are_found_by_their_id_in_their_context() -> None:
    index = filled()
    assert {str(one.subject) for one in index.versions(".", 1)} == {"a", "b"}
    assert index.any_version(".", 5) == version("b", 2, 5, INT)
    assert index.versions(".", 9) == index.versions(".d", 1) == []
    assert index.any_version(".", 9) is index.any_version(".d", 1) is None
    assert index.has_subject(".", 1, "b")
    assert not index.has_subject(".c", 1, "b")


def test_content_has_one_id_in_each_context() -> None:
    index = filled()
    assert (index.id_of(".", content()), index.id_of(".c", content()), index.id_of(".d", content())) == (1, 9, None)
    assert index.versions_of_content(".", "b", content(INT)) == [version("b", 2, 5, INT)]
    assert index.versions_of_content(".", "b", content('"long"')) == []
    assert index.versions_of_content(".d", "b", content()) == []


def test_md5_is_found_in_all_contexts() -> None:
    assert filled().ids_of_md5(content().md5) == [(".", 1), (".c", 9)]
    assert filled().ids_of_md5(b"") == []


def test_removed_versions_are_found_no_more_and_their_ids_are_not_given_again() -> None:
    index = filled()
    index.remove(version("a", 1, 1))
    assert [str(one.subject) for one in index.versions(".", 1)] == ["b"]
    index.remove(version("b", 1, 1))
    index.remove(version("b", 2, 5, INT))
    assert index.any_version(".", 1) is None
    assert index.id_of(".", content()) is None
    assert index.ids_of_md5(content().md5) == [(".c", 9)]
    assert (index.max_id("."), index.max_id(".c"), index.max_id(".d")) == (5, 9, 0)
    assert list(index.contexts()) == [".", ".c"]


def test_content_that_an_import_gave_two_ids_is_found_by_either() -> None:
    index = filled()
    index.add(version("b", 3, 7))
    assert index.id_of(".", content()) == 1
    assert [one.version for one in index.versions_of_content(".", "b", content())] == [1, 3]
    index.remove(version("b", 1, 1))
    index.remove(version("a", 1, 1))
    assert index.id_of(".", content()) == 7
