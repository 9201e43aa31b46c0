"""The privacy of a data folder: modes of what is created, and symbolic links that lead out of
it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log.deletion import remove_folder
from kqueue.metadata.sqlite import SqliteStore
from kqueue.storage import LocalStorage

pytestmark = pytest.mark.skipif(os.name == "nt", reason="modes and links are POSIX's")


@pytest.fixture(params=[0o000, 0o022, 0o077], ids="{:03o}".format)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def modes(root: Path) -> dict[str, int]:
    return {str(path.relative_to(root)): stat.S_IMODE(path.stat().st_mode) for path in sorted(root.rglob("*"))}


def fill(storage: LocalStorage) -> None:
    storage.make_folder("t-0/deep")
    storage.open("t-0/log", create=True).append(b"x")
    storage.write_atomic("checkpoint", b"x")
    storage.lock(".lock").release()


def test_created_files_are_private_whatever_the_umask(umask: int, tmp_path: Path) -> None:
    fill(LocalStorage(tmp_path / "data"))
    assert modes(tmp_path) == {
        "data": 0o700, "data/.lock": 0o600, "data/checkpoint": 0o600, "data/t-0": 0o700,
        "data/t-0/deep": 0o700, "data/t-0/log": 0o600,
    }  # fmt: skip


def test_public_files_follow_the_umask(umask: int, tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path / "data", private=False)
    fill(storage)
    assert modes(tmp_path)["data/t-0"] == 0o777 & ~umask
    assert modes(tmp_path)["data/t-0/log"] == modes(tmp_path)["data/checkpoint"] == 0o666 & ~umask
    storage.opener().write_atomic("more", b"x")
    assert modes(tmp_path)["data/more"] == 0o666 & ~umask


def test_existing_files_keep_their_mode(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir(0o755)
    (tmp_path / "data" / "log").touch(0o644)
    storage = LocalStorage(tmp_path / "data")
    storage.open("log", create=True).append(b"x")
    assert modes(tmp_path) == {"data": 0o755, "data/log": 0o644}


def test_the_metadata_store_and_the_files_beside_it_are_this_users_alone(umask: int, tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kqueue.db")
    store.commit({}, {"/a": b"x"}, ())
    assert set(modes(tmp_path)) == {"kqueue.db", "kqueue.db-shm", "kqueue.db-wal"}
    assert set(modes(tmp_path).values()) == {0o600}
    store.close()


@pytest.fixture
def linked(tmp_path: Path) -> tuple[LocalStorage, Path]:
    """A storage with the links `folder` and `file`, and the folder outside that they lead to."""
    outside = tmp_path / "outside"
    (outside / "sub").mkdir(parents=True)
    (outside / "log").write_bytes(b"precious")
    (outside / "sub" / "log").write_bytes(b"precious too")
    data = tmp_path / "data"
    (data / "real").mkdir(parents=True)
    for name, target in (
        ("folder", outside),
        ("file", outside / "log"),
        ("made.tmp", outside / "log"),
        ("nowhere", outside / "new"),
    ):
        (data / name).symlink_to(target)
    (data / "real" / "sub").symlink_to(outside)
    return LocalStorage(data), outside


USES: list[Callable[[LocalStorage], object]] = [
    lambda storage: storage.open("folder/log").read_at(0, 9),
    lambda storage: storage.open("folder/new", create=True),
    lambda storage: storage.open("real/sub/sub/log").read_at(0, 9),
    lambda storage: storage.open("file").read_at(0, 9),
    lambda storage: storage.open("file").append(b"x"),
    lambda storage: storage.open("file", create=True),
    lambda storage: storage.open("nowhere", create=True),
    lambda storage: storage.read("file"),
    lambda storage: storage.read("folder/log"),
    lambda storage: storage.list("folder"),
    lambda storage: storage.list("real/sub"),
    lambda storage: storage.make_folder("folder"),
    lambda storage: storage.make_folder("folder/new"),
    lambda storage: storage.make_folder("file"),
    lambda storage: storage.remove("folder/log"),
    lambda storage: storage.rename("folder/log", "real/log"),
    lambda storage: storage.rename("real", "folder/real"),
    lambda storage: storage.write_atomic("folder/log", b"x"),
    lambda storage: storage.sync_folder("folder"),
    lambda storage: remove_folder(storage, "folder"),
]


@pytest.mark.parametrize("use", USES)
def test_links_are_not_followed(use: Callable[[LocalStorage], object], linked: tuple[LocalStorage, Path]) -> None:
    storage, outside = linked
    with pytest.raises(StorageFailed, match="symbolic link"):
        use(storage)
    assert {str(path.relative_to(outside)) for path in outside.rglob("*")} == {"log", "sub", "sub/log"}
    assert (outside / "log").read_bytes() == b"precious"


def test_links_are_listed_as_empty_files_and_removed_and_renamed_themselves(linked: tuple[LocalStorage, Path]) -> None:
    storage, outside = linked
    assert [tuple(entry) for entry in storage.list("") if entry.name != "real"] == [
        ("file", 0, False), ("folder", 0, False), ("made.tmp", 0, False), ("nowhere", 0, False),
    ]  # fmt: skip
    storage.rename("folder", "other")
    for name in ("other", "file"):
        storage.remove(name)
    remove_folder(storage, "real")
    assert [entry.name for entry in storage.list("")] == ["made.tmp", "nowhere"]
    assert (outside / "log").read_bytes() == b"precious"
    assert (outside / "sub" / "log").exists()


def test_a_temporary_file_that_is_a_link_is_replaced_and_not_written_through(linked: tuple[LocalStorage, Path]) -> None:
    storage, outside = linked
    storage.write_atomic("made", b"new")
    assert storage.read("made") == b"new"
    assert (outside / "log").read_bytes() == b"precious"
    storage.write_atomic("file", b"new")  # the name gets a file of its own
    assert storage.read("file") == b"new"
    assert (outside / "log").read_bytes() == b"precious"


def test_the_root_itself_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    storage = LocalStorage(tmp_path / "link")
    fill(storage)
    storage.sync_folder("")
    assert storage.read("checkpoint") == b"x"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm", "-journal"])
def test_a_metadata_store_that_is_a_link_is_refused(suffix: str, tmp_path: Path) -> None:
    (tmp_path / f"kqueue.db{suffix}").symlink_to(tmp_path / "target")
    with pytest.raises(StorageFailed, match="is a symbolic link"):
        SqliteStore(tmp_path / "kqueue.db")
    assert not (tmp_path / "target").exists()
