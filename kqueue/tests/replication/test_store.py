"""The contract of `MetadataStore`, held against every store; and against a plain dict by a state machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.base.errors import Conflict, StorageFailed
from kqueue.replication.memory import MemoryStore
from kqueue.replication.sqlite import SqliteStore
from kqueue.replication.store import KEY_LENGTH_MAX, VALUE_SIZE_MAX, Entry, MetadataStore, check_commit, check_guards


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], MetadataStore]]:
    made: list[MetadataStore] = []

    def make() -> MetadataStore:
        store = MemoryStore() if request.param == "memory" else SqliteStore(tmp_path / f"{len(made)}.db")
        made.append(store)
        return store

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make: Callable[[], MetadataStore]) -> MetadataStore:
    return make()


def test_reads_back_what_was_committed_under_a_prefix_in_order(store: MetadataStore) -> None:
    versions = store.commit({}, {"/topics/b": b"2", "/topics/a": b"1", "/topicsx": b"3", "/other": b""}, [])
    assert set(versions) == {"/topics/b", "/topics/a", "/topicsx", "/other"}
    assert all(version >= 1 for version in versions.values())
    found = store.read("/topics/")
    assert list(found.items()) == [("/topics/a", Entry(b"1", versions["/topics/a"])), ("/topics/b", Entry(b"2", versions["/topics/b"]))]
    assert list(store.read("/")) == ["/other", "/topics/a", "/topics/b", "/topicsx"]
    assert store.read("/nobody") == {}


def test_a_guard_on_absence_lets_only_the_first_in(store: MetadataStore) -> None:
    store.commit({"/a": None}, {"/a": b"first"}, [])
    with pytest.raises(Conflict, match=r"/a: expected no entry, found version 1"):
        store.commit({"/a": None}, {"/a": b"second", "/b": b"x"}, [])
    assert {key: entry.value for key, entry in store.read("/").items()} == {"/a": b"first"}


def test_a_guard_on_a_version_refuses_a_stale_writer(store: MetadataStore) -> None:
    first = store.commit({}, {"/a": b"1"}, [])["/a"]
    second = store.commit({"/a": first}, {"/a": b"2"}, [])["/a"]
    assert second > first
    with pytest.raises(Conflict):
        store.commit({"/a": first}, {}, ["/a"])
    assert store.read("/a")["/a"] == Entry(b"2", second)


def test_a_guard_may_stand_on_a_key_that_is_not_changed(store: MetadataStore) -> None:
    version = store.commit({}, {"/term": b"7"}, [])["/term"]
    store.commit({"/term": version}, {"/x": b""}, [])
    with pytest.raises(Conflict):
        store.commit({"/term": version + 1000}, {"/y": b""}, [])
    assert set(store.read("/")) == {"/term", "/x"}


def test_a_deleted_key_comes_back_with_a_version_it_never_had(store: MetadataStore) -> None:
    seen = {store.commit({}, {"/a": b""}, [])["/a"]}
    for _ in range(3):
        assert store.commit({}, {}, ["/a", "/never-there"]) == {}
        assert store.read("/a") == {}
        version = store.commit({"/a": None}, {"/a": b""}, [])["/a"]
        assert version > max(seen)
        seen.add(version)


def test_what_is_kept_does_not_change_with_the_caller(store: MetadataStore) -> None:
    value = bytearray(b"abc")
    store.commit({}, {"/a": value}, [])
    value[:] = b"xyz"
    assert store.read("/a")["/a"].value == b"abc"
    assert isinstance(store.read("/a")["/a"].value, bytes)


@pytest.mark.parametrize(
    ("guards", "puts", "deletes"),
    [
        ({}, {"a": b""}, []),
        ({"": None}, {}, []),
        ({}, {}, ["/" + "k" * KEY_LENGTH_MAX]),
        ({}, {"/a\0b": b""}, []),
        ({}, {"/a": bytes(VALUE_SIZE_MAX + 1)}, []),
        ({}, {"/a": b""}, ["/a"]),
    ],
)
def test_refuses_what_breaks_the_limits_and_changes_nothing(
    store: MetadataStore, guards: dict[str, int | None], puts: dict[str, bytes], deletes: list[str]
) -> None:
    with pytest.raises(ValueError, match=r"key|value|put"):
        store.commit(guards, {"/fine": b"", **puts}, deletes)
    assert store.read("/") == {}


def test_takes_what_is_just_within_the_limits(store: MetadataStore) -> None:
    key = "/" + "k" * (KEY_LENGTH_MAX - 1)
    store.commit({}, {key: bytes(VALUE_SIZE_MAX)}, [])
    assert len(store.read(key)[key].value) == VALUE_SIZE_MAX


def test_a_closed_store_says_so(store: MetadataStore) -> None:
    store.close()
    store.close()
    with pytest.raises(StorageFailed):
        store.read("/")
    with pytest.raises(StorageFailed):
        store.commit({}, {"/a": b""}, [])


def test_of_many_threads_with_one_guard_exactly_one_wins_each_round(store: MetadataStore) -> None:
    def try_it(version: int | None, who: int) -> bool:
        try:
            store.commit({"/a": version}, {"/a": b"%d" % who}, [])
        except Conflict:
            return False
        return True

    version: int | None = None
    with ThreadPoolExecutor(4) as pool:
        for _ in range(5):
            assert sum(pool.map(try_it, [version] * 8, range(8))) == 1
            version = store.read("/a")["/a"].version


KEYS = st.sampled_from(["/a", "/a/b", "/a/c", "/b", "/\U0010ffff", "/é"])
STEP = st.tuples(
    st.dictionaries(KEYS, st.integers(0, 3), max_size=2),  # guards: 0 = absent, 1 = right, 2 = stale, 3 = far ahead
    st.dictionaries(KEYS, st.binary(max_size=4), max_size=3),
    st.sets(KEYS, max_size=2),
)


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP, max_size=12))
def test_memory_and_sqlite_both_behave_like_a_dict(steps: list[tuple[dict[str, int], dict[str, bytes], set[str]]]) -> None:
    memory, sqlite = MemoryStore(), SqliteStore(":memory:")
    model: dict[str, Entry] = {}
    for choices, puts, deletes in steps:
        deletes -= set(puts)
        guards: dict[str, int | None] = {}
        for key, choice in choices.items():
            there = model[key].version if key in model else None
            guards[key] = {0: None, 1: there, 2: (there or 0) - 1, 3: 10**6}[choice]
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
