from __future__ import annotations

import os
from pathlib import Path

import pytest
from kqueue_cleanup_archive import Archive
from logs import DAY_MS, START_MS, fill, partition_of, sealed, simulation, whole_files
from pyarrow.fs import FileSystem, LocalFileSystem, SubTreeFileSystem


@pytest.mark.parametrize("through", ["local", "subtree"])
def test_on_return_files_and_names_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, through: str
) -> None:
    """The segments are deleted afterwards, so a power cut must not lose archived rows."""
    sim = simulation(tmp_path / "data")
    partition = partition_of(sim)
    fill(sim, partition, 30, [START_MS, START_MS + DAY_MS])
    segments = sealed(partition)
    done: list[tuple[str, int]] = []
    sync = os.fsync

    def noting(fd: int) -> None:
        done.append((str(Path(f"/proc/self/fd/{fd}").readlink()), os.fstat(fd).st_size))
        sync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    root: FileSystem = SubTreeFileSystem(str(tmp_path), LocalFileSystem())
    Archive(*(("archive", root) if through == "subtree" else (str(tmp_path / "archive"),)))(segments)
    names = [name for name, _ in done]
    written = whole_files(tmp_path / "archive")
    assert len(written) == 2
    for file in written:
        partial = [(name, size) for name, size in done if name.endswith(".partial") and str(file.parent) in name]
        assert [size for _, size in partial] == [file.stat().st_size], "all bytes were there when it was synced"
        assert names.index(partial[0][0]) < names.index(str(file.parent)), "the name comes after the bytes"
    for folder in (tmp_path / "archive" / "topic=orders", tmp_path / "archive", tmp_path):
        assert str(folder) in names[names.index(str(written[0].parent)) :]
