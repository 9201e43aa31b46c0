"""The contract of `MetadataStore`, held against every store; and against a plain dict by a state
machine.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import Conflict
from kqueue.metadata import METADATA_STORES
from kqueue.metadata.memory import MemoryStore
from kqueue.metadata.sqlite import SqliteStore
from kqueue.metadata.store import Entry, MetadataStore, check_commit, check_guards
from kqueue.testing import check_cluster_store, check_metadata_store
from kqueue.tests.thorough import examples


def memory(folder: str) -> MetadataStore:
    return MemoryStore()


def test_every_store_keeps_the_contract() -> None:
    check_metadata_store(METADATA_STORES.get("sqlite"))
    check_metadata_store(memory, durable=False)


STORES: dict[str, MemoryStore] = {}


def shared_memory(folder: str) -> MemoryStore:
    return STORES.setdefault(folder, MemoryStore())


def test_memory_keeps_the_contract_of_a_cluster() -> None:
    check_cluster_store(shared_memory, durable=False)


def shared_sqlite(folder: str) -> SqliteStore:
    return SqliteStore(Path(folder, "kqueue.db"))


@pytest.mark.long
def test_sqlite_keeps_the_contract_of_a_cluster() -> None:
    check_cluster_store(shared_sqlite)


KEYS = st.sampled_from(["/a", "/a/b", "/a/c", "/b", "/\U0010ffff", "/é"])
STEP = st.tuples(
    st.dictionaries(KEYS, st.integers(0, 3), max_size=2),  # guards: 0 = absent, 1 = right, 2 = stale, 3 = far ahead
    st.dictionaries(KEYS, st.binary(max_size=4), max_size=3),
    st.sets(KEYS, max_size=2),
)


@settings(max_examples=examples(60), deadline=None)
@given(steps=st.lists(STEP, max_size=12))
def test_memory_and_sqlite_both_behave_like_a_dict(
    steps: list[tuple[dict[str, int], dict[str, bytes], set[str]]],
) -> None:
    memory, sqlite = MemoryStore(), SqliteStore(":memory:")
    model: dict[str, Entry] = {}
    for choices, puts, deletes in steps:
        deletes -= set(puts)
        guards: dict[str, int | None] = {}
        for key, choice in choices.items():
            stored_version = model[key].version if key in model else None
            guards[key] = {0: None, 1: stored_version, 2: (stored_version or 0) - 1, 3: 10**6}[choice]
        holds = all(guards[key] == (model[key].version if key in model else None) for key in guards)
        results = []
        for store in (memory, sqlite):
            try:
                results.append(dict(store.commit(guards, puts, deletes)))
            except Conflict:
                results.append(None)
        assert results[0] == results[1]
        assert (results[0] is not None) == holds
        if results[0] is not None:
            model.update({key: Entry(value, results[0][key]) for key, value in puts.items()})
            for key in deletes:
                model.pop(key, None)
        for prefix in ("/", "/a", "/a/", "/\U0010ffff", "/z"):
            expected = {key: entry for key, entry in sorted(model.items()) if key.startswith(prefix)}
            assert list(memory.read(prefix).items()) == list(expected.items()) == list(sqlite.read(prefix).items())
    sqlite.close()


def test_check_commit_and_guards_stand_alone() -> None:
    check_commit({}, {"/a": b""}, ["/b"])
    assert check_guards({"/a": 1, "/b": None}, {"/a": 1}) is None
    assert check_guards({"/a": 1}, {}) == "/a: expected version 1, found no entry"
