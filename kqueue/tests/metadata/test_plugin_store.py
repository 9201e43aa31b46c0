from __future__ import annotations

from typing import Any

import pytest

from kqueue.base.errors import Conflict, PluginError, StorageFailed
from kqueue.metadata import METADATA_STORES
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.plugin_store import PluginMetadataStore
from kqueue.metadata.store import Entry, MetadataStore
from kqueue.tests.tables import for_each

TITLE = "metadata store 'odd' of some-plugin 2.1"


class Returning:
    """Returns what it is told."""

    def __init__(self, result: object) -> None:
        self.result = result

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.result


def guarded(store: Any) -> MetadataStore:
    return METADATA_STORES.guarded("odd", lambda folder: store, "some-plugin 2.1")("")


def test_a_good_one_works_behind_the_guard() -> None:
    store = guarded(MemoryStore())
    assert isinstance(store, PluginMetadataStore)
    versions = store.commit({"/a": None}, {"/a": b"1"}, iter(["/b"]))
    assert store.read("/") == {"/a": Entry(b"1", versions["/a"])}
    with pytest.raises(Conflict):
        store.commit({"/a": None}, {"/a": b"2"}, [])
    with pytest.raises(ValueError, match="starts with '/'"):
        store.commit({}, {"a": b""}, [])
    store.close()
    with pytest.raises(StorageFailed, match="the metadata store is closed"):
        store.read("/")


@for_each("returned", [None, [], {"/b": Entry(b"", 1)}, {"/a": b"1"}, {"/a": Entry("1", 1)}, {"/a": Entry(b"1", "1")}])
def test_malformed_result_of_read_names_the_store(returned: object) -> None:
    with pytest.raises(StorageFailed, match=f"{TITLE} broke its contract: read"):
        guarded(Returning(returned)).read("/a")


@for_each("returned", [None, 5, {}, {"/b": 1}, {"/a": "1"}])
def test_a_commit_without_its_versions_is_refused(returned: object) -> None:
    with pytest.raises(StorageFailed, match=f"{TITLE} broke its contract: commit returned"):
        guarded(Returning(returned)).commit({}, {"/a": b"1"}, [])


def test_unexpected_exception_is_a_failure_that_names_the_store() -> None:
    class Raising(MemoryStore):
        def read(self, prefix: str) -> Any:
            raise ConnectionError("the secret is 42")

        commit = close = read  # type: ignore[assignment]

    store = guarded(Raising())
    for call in (lambda: store.read("/"), lambda: store.commit({}, {"/a": b""}, []), lambda: store.close()):
        with pytest.raises(StorageFailed, match=f"{TITLE}: .* failed: ") as caught:
            call()
        assert "secret" not in caught.value.summary


def test_factory_without_a_store_is_refused() -> None:
    with pytest.raises(PluginError, match=f"{TITLE}: expected a MetadataStore, found object without the method read"):
        guarded(object())
    with pytest.raises(PluginError, match="expected a callable"):
        METADATA_STORES.guarded("odd", "text", "a test")  # type: ignore[arg-type]
