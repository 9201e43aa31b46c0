"""The contract of every store (`kqueue.spark.stores.Store`)."""

from __future__ import annotations

import pytest

from kqueue.base.errors import KqueueError
from kqueue.spark.stores import Store

NAMES = ["topic=a.b/date=2026-01-31/part-1.parquet", "topic=a.b/date=__HIVE_DEFAULT_PARTITION__/part-1.parquet"]


def check_store(store: Store) -> None:
    """Assert all promises that need no Spark, of an empty store."""
    assert not store.exists()
    assert (store.names(""), store.names("no/such"), store.read("no/such")) == ([], [], None)
    store.delete("no/such")

    assert store.put_new("batches/1.json", b"one")
    assert not store.put_new("batches/1.json", b"two")
    assert store.read("batches/1.json") == b"one"
    assert store.put_new("batches2/1.json", b"")
    assert store.names("batches") == ["1.json"]
    assert store.exists()
    assert store.exists("batches")
    assert not store.exists("batch")
    with store.open("batches/1.json") as file:
        file.seek(1)
        assert (file.read(1), file.size() if callable(file.size) else file.size) == (b"n", 3)

    for name in NAMES:
        assert store.put_new(f".staging/x/{name}", name.encode())
    assert store.names(".staging/x") == NAMES
    pairs = [(f".staging/x/{name}", f"data/{name}") for name in NAMES]
    store.move(pairs[:1])
    store.move(pairs)  # the first is there
    store.move(pairs)
    assert (store.names(".staging"), store.names("data")) == ([], NAMES)
    assert store.read(f"data/{NAMES[1]}") == NAMES[1].encode()
    with pytest.raises(KqueueError, match="lost"):
        store.move([("no/lost", "data/found")])
    if store.renames:
        store.put_new("new/a/1", b"new")
        store.put_new("old/b/1", b"old")
        store.move([("new", "old")])
        assert store.names("old") == ["a/1"]
        store.delete("old")

    store.delete("data")
    store.delete("batches/1.json")
    assert store.names("") == ["batches2/1.json"]
    assert store.of("batches2", "1.json").startswith(store.url)
