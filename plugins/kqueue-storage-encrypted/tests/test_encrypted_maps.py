from __future__ import annotations

from kqueue_storage_encrypted.maps import Maps


def test_what_was_used_last_stays() -> None:
    maps = Maps(bytes_max=100)
    views = {name: memoryview(bytes(40)) for name in "abc"}
    maps.keep("a", views["a"])
    maps.keep("b", views["b"])
    assert maps.get("a") is views["a"]
    maps.keep("c", views["c"])
    assert [maps.get(name) is not None for name in "abc"] == [True, False, True]
    maps.drop("a")
    maps.drop("a")
    maps.keep("b", views["b"])
    assert [maps.get(name) is not None for name in "abc"] == [False, True, True]


def test_one_stays_however_large_it_is() -> None:
    maps = Maps(bytes_max=100)
    maps.keep("a", memoryview(bytes(30)))
    maps.keep("b", memoryview(bytes(300)))
    assert maps.get("a") is None
    assert maps.get("b") is not None
    maps.keep("b", memoryview(bytes(20)))
    maps.keep("a", memoryview(bytes(70)))
    assert maps.get("b") is not None, "it counts once"
