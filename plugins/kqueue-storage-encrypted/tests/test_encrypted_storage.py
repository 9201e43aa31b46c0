"""The contract, and where the key comes from."""

from __future__ import annotations

import base64
import os
import pickle
from pathlib import Path

import pytest
from kqueue_storage_encrypted import EncryptedStorage, KeyRefused, KeySource, open_encrypted
from kqueue_storage_encrypted.keys import KEY_CHECK

from kqueue.base.errors import StorageFailed
from kqueue.storage import STORAGES, LocalStorage, MemoryStorage, Storage
from kqueue.testing import check_storage
from kqueue.testing.faulty_storage import FaultyStorage

KEY, OTHER_KEY = bytes(range(32)), bytes(32)
SOURCE = KeySource(variable="KQUEUE_ENCRYPTION_KEY")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQUEUE_ENCRYPTION_KEY", KEY.hex())
    monkeypatch.delenv("KQUEUE_ENCRYPTION_KEY_FILE", raising=False)


def test_encrypted_storage_keeps_the_contract() -> None:
    check_storage(open_encrypted)


def over_memory(path: str) -> Storage:
    return EncryptedStorage(MemoryStorage(), SOURCE)


def over_faulty(path: str) -> Storage:
    return EncryptedStorage(FaultyStorage(), SOURCE)


@pytest.mark.parametrize("make", [over_memory, over_faulty])
def test_encrypted_storage_keeps_the_contract_over_other_storages(make: object) -> None:
    check_storage(make, isolated=False)  # type: ignore[arg-type]


def test_encrypted_storage_is_found_by_name(tmp_path: Path) -> None:
    STORAGES.get("encrypted")(str(tmp_path)).write_atomic("a", b"secret")
    assert open_encrypted(str(tmp_path)).read("a") == b"secret"
    assert b"secret" not in (tmp_path / "a").read_bytes()


GOOD = [
    KEY.hex(),
    KEY.hex().upper() + "\n",
    base64.b64encode(KEY).decode(),
    base64.urlsafe_b64encode(KEY).decode() + "\n",
]
BAD = ["", "secret", KEY.hex()[:-1], KEY.hex() + "00", "g" * 64, base64.b64encode(KEY + b"x").decode(), "a" * 9000]


@pytest.mark.parametrize("text", GOOD)
def test_a_key_is_hexadecimal_or_base64_in_a_file_or_the_environment(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_encrypted(str(tmp_path / "data")).write_atomic("a", b"secret")
    monkeypatch.setenv("KQUEUE_ENCRYPTION_KEY", text)
    assert open_encrypted(str(tmp_path / "data")).read("a") == b"secret"
    monkeypatch.delenv("KQUEUE_ENCRYPTION_KEY")
    (tmp_path / "key").write_text(text)
    monkeypatch.setenv("KQUEUE_ENCRYPTION_KEY_FILE", str(tmp_path / "key"))
    assert open_encrypted(str(tmp_path / "data")).read("a") == b"secret"


@pytest.mark.parametrize("text", BAD)
def test_a_malformed_key_is_refused_and_not_repeated(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KQUEUE_ENCRYPTION_KEY", text)
    with pytest.raises(KeyRefused, match="KQUEUE_ENCRYPTION_KEY holds no key: expected 32 random bytes") as caught:
        open_encrypted(str(tmp_path))
    assert len(text) < 6 or text not in str(caught.value)
    (tmp_path / "key").write_text(text)
    with pytest.raises(KeyRefused, match="holds no key"):
        KeySource(file=str(tmp_path / "key")).load()


def test_without_a_key_nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KQUEUE_ENCRYPTION_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(KeyRefused, match="both of them"):
        open_encrypted(str(tmp_path / "data"))
    monkeypatch.delenv("KQUEUE_ENCRYPTION_KEY")
    with pytest.raises(KeyRefused, match=r"can't read the key file .*key: No such file"):
        open_encrypted(str(tmp_path / "data"))
    monkeypatch.delenv("KQUEUE_ENCRYPTION_KEY_FILE")
    with pytest.raises(KeyRefused, match="set KQUEUE_ENCRYPTION_KEY_FILE .* or KQUEUE_ENCRYPTION_KEY; neither"):
        open_encrypted(str(tmp_path / "data"))
    with pytest.raises(KeyRefused, match="is not set"):
        SOURCE.load()


def test_another_key_is_refused_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_encrypted(str(tmp_path)).write_atomic("a", b"secret")
    monkeypatch.setenv("KQUEUE_ENCRYPTION_KEY", OTHER_KEY.hex())
    with pytest.raises(KeyRefused, match="encrypted with another key"):
        open_encrypted(str(tmp_path))


def test_a_folder_that_is_not_encrypted_is_left_alone(tmp_path: Path) -> None:
    LocalStorage(tmp_path).write_atomic("meta.properties", b"version=1")
    with pytest.raises(KeyRefused, match="holds 'meta.properties' but no .kqueue-encryption"):
        open_encrypted(str(tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["meta.properties"]


@pytest.mark.parametrize("damage", [b"", b"kqueue-storage-encrypted 2\nsalt 00\ncheck 00\n", b"\xff" * 2000])
def test_a_damaged_key_check_is_refused(damage: bytes, tmp_path: Path) -> None:
    open_encrypted(str(tmp_path))
    (tmp_path / KEY_CHECK).write_bytes(damage)
    with pytest.raises(KeyRefused, match="damaged"):
        open_encrypted(str(tmp_path))


def test_a_file_of_another_folder_is_none_of_this_one_even_with_the_same_key(tmp_path: Path) -> None:
    ours, theirs = open_encrypted(str(tmp_path / "ours")), open_encrypted(str(tmp_path / "theirs"))
    theirs.write_atomic("a", b"secret")
    (tmp_path / "ours" / "a").write_bytes((tmp_path / "theirs" / "a").read_bytes())
    with pytest.raises(StorageFailed, match="a: damaged at position 0"):
        ours.read("a")


def test_opener_names_the_key_and_does_not_hold_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = open_encrypted(str(tmp_path))
    storage.write_atomic("a", b"secret")
    assert storage.opener is not None
    sent = pickle.dumps(storage.opener)
    assert KEY not in sent
    assert KEY.hex().encode() not in sent
    assert pickle.loads(sent)().read("a") == b"secret"
    monkeypatch.delenv("KQUEUE_ENCRYPTION_KEY")
    with pytest.raises(KeyRefused):
        pickle.loads(sent)()
    assert EncryptedStorage(MemoryStorage(), _key_file(tmp_path / "key")).opener is None


def _key_file(path: Path) -> KeySource:
    path.write_text(base64.b64encode(os.urandom(32)).decode())
    return KeySource(file=str(path))


def test_the_key_check_is_out_of_reach(tmp_path: Path) -> None:
    storage = open_encrypted(str(tmp_path))
    assert storage.list("") == []
    with pytest.raises(ValueError, match="belongs to the encryption"):
        storage.remove(KEY_CHECK)
