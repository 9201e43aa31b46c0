"""To be run where the distribution is installed: brokers find it by its entry points."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from kqueue_tier_encrypted import (
    CHUNK_SIZE,
    KEY_FILE_VARIABLE,
    EncryptedTierStore,
    content_size,
    encrypted_size,
    load_key,
)

from kqueue.testing import check_tier_store
from kqueue.tier.errors import ObjectChanged, TierCorrupt, TierError
from kqueue.tier.stores.address import open_store
from kqueue.tier.stores.contract import TierStore
from kqueue.tier.stores.memory import MemoryTierStore

SIZES = (0, 1, CHUNK_SIZE - 1, CHUNK_SIZE, CHUNK_SIZE + 1, 3 * CHUNK_SIZE)


@pytest.fixture(autouse=True)
def key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "tier.key"
    path.write_bytes(base64.b64encode(bytes(range(32))) + b"\n")
    monkeypatch.setenv(KEY_FILE_VARIABLE, str(path))
    return path


@pytest.fixture
def inner() -> MemoryTierStore:
    return MemoryTierStore()


@pytest.fixture
def store(inner: MemoryTierStore) -> TierStore:
    return EncryptedTierStore(inner, bytes(range(32)))


def test_plugin_keeps_the_contract() -> None:
    for url in ("encrypted-memory://{name}", "encrypted-file://{folder}/tier"):
        check_tier_store("kqueue.tier.stores.address:open_store", url, objects=50)


def test_url_opens_the_store_inside_which_has_nothing_readable(tmp_path: Path) -> None:
    store = open_store(f"encrypted-file://{tmp_path}/tier")
    assert store.location == f"encrypted-file://{tmp_path}/tier"
    store.put("a/b", [b"customer 17 " * 1000], 12_000)
    store.close()
    data = (tmp_path / "tier" / "a" / "b").read_bytes()
    assert len(data) == encrypted_size(12_000)
    assert b"customer" not in data
    assert open_store(f"encrypted-file://{tmp_path}/tier").get_range("a/b", 12, 8) == b"customer"


@pytest.mark.parametrize("size", SIZES)
def test_sizes_are_those_of_the_content(store: TierStore, inner: MemoryTierStore, size: int) -> None:
    store.put("a", [bytes(size)], size)
    assert [entry.size for entry in store.list("")] == [size]
    assert [entry.size for entry in inner.list("")] == [encrypted_size(size)]
    assert content_size(encrypted_size(size)) == size
    for start, length in ((0, size), (size // 2, 1), (size - 1, 1)):
        if size:
            assert store.get_range("a", start, length) == bytes(length)


def test_same_content_is_encrypted_to_other_bytes_each_time(store: TierStore, inner: MemoryTierStore) -> None:
    bodies = set()
    for _ in range(10):
        store.put("a", [b"same"], 4)
        bodies.add(inner.get("a", max_bytes=100).body)
    assert len(bodies) == 10


def changed(body: bytes) -> Iterator[bytes]:
    """Bodies that differ from this one of two chunks and a half."""
    for position in (0, 8, 39, 47, 48, 48 + CHUNK_SIZE, len(body) - 1):
        yield body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
    yield body[:-1]
    yield body + b"\0"
    yield body[: encrypted_size(2 * CHUNK_SIZE)]
    first, second = body[48 : 48 + CHUNK_SIZE + 16], body[48 + CHUNK_SIZE + 16 : 48 + 2 * (CHUNK_SIZE + 16)]
    yield body[:48] + second + first + body[48 + 2 * (CHUNK_SIZE + 16) :]
    yield b""
    yield b"plain text"


def read_in_ranges(store: TierStore, size: int) -> None:
    for start in range(0, size, CHUNK_SIZE // 2):
        store.get_range("a", start, CHUNK_SIZE // 2)
    store.get("a", max_bytes=size)  # what was appended is in no range


def test_changed_object_is_corrupt(store: TierStore, inner: MemoryTierStore) -> None:
    size = 5 * CHUNK_SIZE // 2
    store.put("a", [bytes(size)], size)
    for body in changed(inner.get("a", max_bytes=1 << 20).body):
        inner.put("a", [body], len(body))
        with pytest.raises(TierCorrupt):
            store.get("a", max_bytes=1 << 20)
        with pytest.raises(TierCorrupt):
            read_in_ranges(store, size)


def test_object_under_another_name_is_corrupt(store: TierStore, inner: MemoryTierStore) -> None:
    store.put("a", [b"1"], 1)
    body = inner.get("a", max_bytes=100).body
    inner.put("b", [body], len(body))
    with pytest.raises(TierCorrupt, match="b can't be decrypted: it was changed, or put with another key"):
        store.get("b", max_bytes=1)


def test_object_of_another_key_is_corrupt(store: TierStore, inner: MemoryTierStore) -> None:
    version = store.put_if("a", b"1", None)
    other = EncryptedTierStore(inner, bytes(32))
    with pytest.raises(TierCorrupt, match=KEY_FILE_VARIABLE):
        other.get("a", max_bytes=1)
    with pytest.raises(ObjectChanged):
        other.put_if("a", b"1", None)
    assert store.get("a", max_bytes=1) == (b"1", version)


def test_key_that_cannot_be_used_is_refused_and_not_told(key_file: Path) -> None:
    for content in (b"", b"c2hvcnQ=", b"not base64!", bytes(5000)):
        key_file.write_bytes(content)
        with pytest.raises(TierError, match=r"tier\.key"):
            open_store("encrypted-memory://a")
    key_file.unlink()
    with pytest.raises(TierError, match="No such file"):
        load_key()
    with pytest.raises(TierError, match="is not set"):
        load_key({})
