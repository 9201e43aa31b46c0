"""A plugin that breaks the contract is named, and its results are not used."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

from kqueue.base.errors import PluginError, StorageFailed
from kqueue.tests.tables import for_each
from kqueue.tier.errors import ObjectNotFound, TierCorrupt, TierError, TierUnavailable
from kqueue.tier.stores.address import TIER_STORES
from kqueue.tier.stores.contract import Object, ObjectEntry, TierStore
from kqueue.tier.stores.memory import MemoryTierStore


def guarded(store: Any) -> TierStore:
    return TIER_STORES.guarded("odd", lambda url: store, "some-plugin 2.1")("odd://x")


def odd(**methods: Callable[..., Any]) -> TierStore:
    """A guarded store in which these methods are others."""
    store = MemoryTierStore()
    store.put("a", [b"abc"], 3)
    for name, method in methods.items():
        setattr(store, name, method)
    return guarded(store)


def fail(*args: object, **named: object) -> Any:
    raise OverflowError("too\nmany")


def entries(*found: Any) -> Callable[[str], Iterator[Any]]:
    return lambda prefix: iter(found)


@for_each(
    "method, wrong, call, message",
    [
        ("put", fail, lambda store: store.put("a", [b"1"], 1), "put raised OverflowError: too many"),
        ("put_if", fail, lambda store: store.put_if("a", b"1", None), "put_if raised OverflowError"),
        ("put_if", lambda *_: 5, lambda store: store.put_if("a", b"1", None), "put_if returned int"),
        ("get", lambda *_, **__: b"abc", lambda store: store.get("a", max_bytes=9), "get returned bytes"),
        ("get", lambda *_, **__: Object("a", 1), lambda store: store.get("a", max_bytes=9), "get returned no Object"),  # type: ignore[arg-type]
        ("get_range", lambda *_: b"", lambda store: store.get_range("a", 0, 2), "returned 0 bytes where 2 were asked"),
        ("get_range", lambda *_: None, lambda store: store.get_range("a", 0, 2), "get_range returned NoneType"),
        ("list", lambda _: None, lambda store: list(store.list("")), "list returned NoneType"),
        ("list", entries("a"), lambda store: list(store.list("")), "list returned str"),
        ("list", entries(ObjectEntry("../a", 1, 1)), lambda store: list(store.list("")), "the key '../a'"),
        (
            "list",
            entries(ObjectEntry("b", 1, 1)),
            lambda store: list(store.list("a")),
            "the key 'b' for the prefix 'a/'",
        ),
        (
            "list",
            entries(ObjectEntry("b", 1, 1), ObjectEntry("a", 1, 1)),
            lambda store: list(store.list("")),
            "the key 'a' after 'b'",
        ),
        ("list", entries(ObjectEntry("b", 1.5, 1)), lambda store: list(store.list("")), "no whole numbers"),  # type: ignore[arg-type]
        ("list", fail, lambda store: store.list(""), "list raised OverflowError"),
        ("list_folders", lambda _: "ab", lambda store: store.list_folders(""), "list_folders returned str"),
        ("list_folders", lambda _: ["a/b"], lambda store: store.list_folders(""), "the name 'a/b'"),
        ("delete", lambda _: 1, lambda store: store.delete(["a"]), "delete returned int"),
        ("close", fail, lambda store: store.close(), "close raised OverflowError"),
    ],
)
def test_broken_contract_is_an_error_that_names_the_plugin(
    method: str, wrong: Callable[..., Any], call: Callable[[TierStore], object], message: str
) -> None:
    with pytest.raises(TierError, match="tier store 'odd' of some-plugin 2.1 broke its contract: ") as failure:
        call(odd(**{method: wrong}))
    assert message in str(failure.value)
    assert type(failure.value) is TierError


def test_errors_of_the_contract_pass() -> None:
    for error in (TierUnavailable("later"), ObjectNotFound("none"), ValueError("key")):

        def get(*_: object, error: Exception = error, **__: object) -> Any:
            raise error

        with pytest.raises(type(error)) as failure:
            odd(get=get).get("a", max_bytes=1)
        assert failure.value is error


def test_errors_of_the_source_of_an_object_pass() -> None:
    def parts() -> Iterator[bytes]:
        yield b"1"
        raise StorageFailed("a disk")

    with pytest.raises(StorageFailed, match="a disk"):
        odd().put("a", parts(), 2)


def test_source_that_can_be_read_again_stays_so() -> None:
    read: list[bytes] = []

    def put(key: str, parts: Iterable[bytes], size: int) -> None:
        read.extend([*parts, *parts])

    odd(put=put).put("a", [b"1", b"2"], 2)
    assert read == [b"1", b"2", b"1", b"2"]


def test_body_above_the_limit_is_not_returned() -> None:
    with pytest.raises(TierCorrupt, match="has 5 bytes, at most 3 were expected"):
        odd(get=lambda *_, **__: Object(b"abcde", "1")).get("a", max_bytes=3)


def test_keys_are_checked_before_the_plugin_is_called() -> None:
    store = odd(put=fail, put_if=fail, get=fail, get_range=fail, delete=fail, list=fail, list_folders=fail)
    for call in (
        lambda: store.put("../a", [], 0),
        lambda: store.put_if("../a", b"", None),
        lambda: store.get("../a", max_bytes=1),
        lambda: store.get_range("../a", 0, 1),
        lambda: store.delete(["a", "../a"]),
        lambda: store.list("../a"),
        lambda: store.list_folders("../a"),
    ):
        with pytest.raises(ValueError, match=r"^key '\.\./a"):
            call()


def test_opener_that_fails_is_named_without_its_text() -> None:
    """The text may have the URL, and the URL secrets."""

    def opener(url: str) -> TierStore:
        raise KeyError(url)

    with pytest.raises(TierError, match="some-plugin 2.1: opening failed with KeyError") as failure:
        TIER_STORES.guarded("odd", opener, "some-plugin 2.1")("odd://x?secret=hunter2")
    assert "hunter2" not in str(failure.value)


def test_object_that_is_no_store_is_refused() -> None:
    with pytest.raises(PluginError, match="expected a TierStore, found object without the method put"):
        guarded(object())
    with pytest.raises(PluginError, match="expected a callable that takes a URL, found 5"):
        TIER_STORES.guarded("odd", 5, "some-plugin 2.1")  # type: ignore[arg-type]
    store: Any = MemoryTierStore()
    store.location = None
    with pytest.raises(PluginError, match="without a text `location`"):
        guarded(store)
