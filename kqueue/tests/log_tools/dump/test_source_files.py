from __future__ import annotations

from pathlib import Path

import pytest

from kqueue.base.errors import StorageFailed
from kqueue.log_tools.dump import DumpFile, dump_files_in
from kqueue.tests.log_tools.dump.sample_logs import ZERO, made, made_with_transactions
from kqueue.tests.tables import for_each


def test_a_folder_gives_what_can_be_dumped_by_name(tmp_path: Path) -> None:
    folder = made_with_transactions(tmp_path)
    for name in ("notes.txt", f"{ZERO}.log.deleted", f"{ZERO}.index.swap", f"{ZERO}.old.log"):
        (folder / name).touch()
    (folder / "00000000000000000009.log").mkdir()
    names = [f"{ZERO}.index", f"{ZERO}.log", f"{ZERO}.timeindex", f"{ZERO}.txnindex", "00000000000000000004.snapshot"]
    assert [source.shown for source in dump_files_in(str(folder))] == [f"{folder}/{name}" for name in names]
    with pytest.raises(StorageFailed, match="can't list .*nowhere: No such file"):
        dump_files_in(str(tmp_path / "nowhere"))


def test_names_are_shown_as_given_and_paths_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    source = DumpFile(f"gone/../t-0/{ZERO}.log")
    assert (source.shown, source.path) == (f"gone/../t-0/{ZERO}.log", str(tmp_path / "t-0" / f"{ZERO}.log"))
    assert (source.folder, source.name, source.suffix) == (str(tmp_path / "t-0"), f"{ZERO}.log", ".log")
    assert DumpFile("a.b/plain").suffix == ""
    made(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "t-0")
    assert DumpFile(f"link/{ZERO}.log").path == str(tmp_path / "link" / f"{ZERO}.log")


def test_the_other_files_of_its_segment(tmp_path: Path) -> None:
    log = made(tmp_path)
    source = DumpFile(str(log.with_suffix(".index")))
    assert source.open().size == log.with_suffix(".index").stat().st_size
    assert source.open(".log").read_at(0, 1 << 20) == log.read_bytes()
    with pytest.raises(FileNotFoundError, match=f"there is no file .*{ZERO}.txnindex"):
        source.open(".txnindex")


@for_each("name", ["x.log", ".log", "-5.log", "٣.log"])
def test_a_name_that_begins_with_no_offset(name: str) -> None:
    assert DumpFile(f"{12:020}.log").base_offset() == 12
    with pytest.raises(StorageFailed, match="expected a name that begins with an offset"):
        DumpFile(name).base_offset()
