from __future__ import annotations

from kqueue.schema_registry.state.reference_index import ReferenceIndex
from kqueue.schema_registry.state.schema_version import SchemaVersion
from kqueue.tests.schema_registry.support import content, name, reference


def test_references_are_to_the_context_of_who_refers_unless_they_name_one() -> None:
    index = ReferenceIndex()
    user = SchemaVersion(
        name(":.c:user"), 1, 4, content(references=(reference("base", 2), reference(":.:base", 2, "n")))
    )
    index.add(user)
    assert index.referrers(name(":.c:base"), 2) == [user]
    assert index.referrers(name("base"), 2) == [user]
    assert index.referrers(name("base"), 1) == []
    index.remove(user)
    assert index.referrers(name("base"), 2) == []


def test_soft_deleted_version_refers_to_nothing() -> None:
    index = ReferenceIndex()
    user = SchemaVersion(name("user"), 1, 4, content(references=(reference("base"),)), is_deleted=True)
    index.add(user)
    assert index.referrers(name("base"), 1) == []
    index.remove(user)
