from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kqueue.base.version import __version__
from kqueue.spark import executors as module
from kqueue.spark.errors import PipelineFailed
from kqueue.spark.executors import NEEDED, Looked, needed_modules
from kqueue.tests.tables import for_each

GOOD = Looked("worker-1", "./environment/bin/python", __version__, (), {}, ())
AWAY = {"b:1": "timed out"}


def test_probe_names_missing_parts(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        address = f"127.0.0.1:{there.getsockname()[1]}"
        files = [str(tmp_path), str(tmp_path / "none")]
        looked = Looked(*module._probe(["kqueue", "no_such"], [address], files, [], 1)(0))  # type: ignore[arg-type]
    assert looked[2:] == (__version__, ("no_such",), {}, (files[1],), ())
    looked = Looked(*module._probe([], [address], [], [], 1)(0))  # type: ignore[arg-type]
    assert looked.unreachable == {address: "Connection refused"}


@for_each(
    "looked, words",
    [
        (GOOD._replace(missing=("kqueue",)), r"worker-1 runs ./environment/bin/python, which has no kqueue: make an"),
        (GOOD._replace(version="0.0.1"), r"has kqueue 0.0.1, and this program has"),
        (GOOD._replace(unreachable={"a:1": "refused", **AWAY}), r"reaches no broker \(a:1: refused; b:1: timed out\)"),
        (GOOD._replace(unreachable=AWAY), r"does not reach b:1 \(timed out\), as the broker calls itself: set"),
        (GOOD._replace(unseen=("/d/x",)), r"does not see /d as the driver does: the folder has to be on"),
        (GOOD._replace(unwritable=("/d/x",)), r"may not write to folders that the driver makes in /d: have executors"),
    ],
)
def test_missing_part_of_an_executor_is_named_with_the_remedy(looked: Looked, words: str) -> None:
    module._judge(GOOD, ["a:1", "b:1"], ["b:1"], {"/d/x": "/d"})
    module._judge(GOOD._replace(unreachable={"a:1": "refused"}), ["a:1", "b:1"], ["b:1"], {})
    with pytest.raises(PipelineFailed, match=words):
        module._judge(looked, ["a:1", "b:1"], ["b:1"], {"/d/x": "/d"})


def test_executors_need_obstore_for_object_stores_only() -> None:
    assert needed_modules(["/data", "file:///tier"], has_server=False) == NEEDED
    assert needed_modules(["/data"], has_server=True) == (*NEEDED, "obstore")
    assert needed_modules(["s3://bucket/tier"], has_server=False) == (*NEEDED, "obstore")


def test_a_python_that_does_not_start_is_named_with_the_remedy() -> None:
    java = 'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file or directory'
    assert "can't run ./environment/bin/python: make an archive" in module._refused(java)
    versions = (
        "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than that in driver: 3.11, PySpark"
    )
    assert "the executors run Python 3.9, and the driver 3.11: make an archive" in module._refused(versions)
    assert module._refused("Job aborted.\n\tat a.b(C:1)") == "Job aborted."


def test_a_folder_is_marked_by_what_is_in_it_or_a_file(tmp_path: Path) -> None:
    (tmp_path / "data" / "orders-0").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    folders = [str(tmp_path / "data"), str(tmp_path / "out" / "new" / "kept"), "s3://bucket/kept"]
    with module._marked(folders) as marked:
        inside, made = marked
        assert inside == str(tmp_path / "data" / "orders-0")
        assert Path(made).parent == tmp_path / "out"
        assert list(marked.values()) == folders[:2]
    assert list((tmp_path / "out").iterdir()) == []


def test_an_executor_of_another_user_may_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "new" / "kept"
    with module._made([str(kept), "s3://bucket/kept", "/proc/none"]) as made:
        (file,) = made
        assert (made[file], Path(file).parent) == (str(kept), tmp_path)
        (tmp_path / "job").mkdir()
        assert Path(file).stat().st_mode == (tmp_path / "job").stat().st_mode
        (tmp_path / "job").rmdir()
        files = [file, str(tmp_path / "none")]
        assert Looked(*module._probe([], [], files, files, 1)(0)).unwritable == ()  # type: ignore[arg-type]
        monkeypatch.setattr("os.access", lambda *_: False)
        looked = Looked(*module._probe([], [], files, files, 1)(0))  # type: ignore[arg-type]
        assert (looked.unseen, looked.unwritable) == ((files[1],), (file,))
    assert list(tmp_path.iterdir()) == []
