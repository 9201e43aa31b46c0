"""Plugins that hang, crash or print are reported without harm to the calling process."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import kqueue.testing
from kqueue.config.plugins import CONTRACTS as CONTRACTS_OF_PLUGINS
from kqueue.records.codecs import CODECS
from kqueue.testing import (
    check_assignor,
    check_cleanup_policy,
    check_codec,
    check_metadata_store,
    check_partitioner,
    check_storage,
    isolation,
)
from kqueue.tests.processes import started
from kqueue.tests.tables import for_each
from kqueue.tests.testing import bad_plugins
from kqueue.tests.testing.bad_plugins import AssignorFactory, Codec, Factory, Policy, StorageOpener, StoreOpener
from kqueue.tests.thorough import corners
from kqueue.tests.waits import eventually

# per contract: its checker, a plugin with a selectable failure, the plugin's name, and the check
# and the call in which it fails
CONTRACTS: dict[str, tuple[Callable[..., object], Any, str, str, str]] = {
    "codec": (
        check_codec,
        Codec,
        "codec 'bad'",
        "a round trip returns the same bytes",
        r"compress\(1 bytes, level=None\)",
    ),
    "partitioner": (
        check_partitioner,
        Factory,
        "partitioner 'bad'",
        "it returns a partition of the topic",
        r"partition\(key=b'', count=",
    ),
    "assignor": (
        check_assignor,
        AssignorFactory,
        "assignor 'bad'",
        "it gives each partition to one subscriber at most",
        r"assign\(members=\[AssignorMember",
    ),
    "policy": (
        check_cleanup_policy,
        Policy,
        "cleanup policy 'bad'",
        "its plans are valid",
        r"plan for LogView\(topic='t'",
    ),
    "storage": (check_storage, StorageOpener, "storage 'bad'", "appends go to the end", r"storage\.read\('a\.log'\)"),
    "store": (
        check_metadata_store,
        StoreOpener,
        "metadata store 'bad'",
        "committed entries are read back",
        r"read\('/topics/b'\)",
    ),
}


def failure_message(check: Callable[..., object], plugin: object, **options: Any) -> str:
    """Return the checker's message for a plugin that fails a check."""
    with pytest.raises(AssertionError) as raised:
        check(plugin, **options)
    return str(raised.value)


@pytest.mark.long
@pytest.mark.parametrize("contract", corners(CONTRACTS))
def test_a_hang_is_reported_with_check_call_and_traceback(contract: str) -> None:
    check, plugin, name, sentence, call = CONTRACTS[contract]
    message = failure_message(check, plugin(bad_plugins.hang), time_limit_s=0.5)
    assert message.startswith(name)
    assert re.search(rf"did not finish within 0.5 s in the check \".*{sentence}.*\", in the call {call}", message)
    assert re.search(r"Traceback:\n  File \".*bad_plugins.py\", line \d+ in hang\n", message)
    assert "isolation.py" not in message


@pytest.mark.parametrize("contract", corners(CONTRACTS, "codec", "storage"))
def test_an_exit_is_reported_with_check_call_and_status(contract: str) -> None:
    check, plugin, name, sentence, call = CONTRACTS[contract]
    message = failure_message(check, plugin(bad_plugins.leave))
    assert message.startswith(
        f"{name} (kqueue.tests.testing.bad_plugins.{plugin.__name__}) ended its process in the check "
    )
    assert re.search(rf"{sentence}.*, in the call {call}.*: exit status 3$", message)


@pytest.mark.parametrize("contract", corners(CONTRACTS, "codec", "storage"))
def test_output_on_standard_output_is_reported(contract: str) -> None:
    check, plugin, name, sentence, _ = CONTRACTS[contract]
    message = failure_message(check, plugin(bad_plugins.say))
    assert message.startswith(name)
    assert "it prints nothing to standard output" in message
    assert re.search(rf"in the check \".*{sentence}.*\" it printed 'hello\\n", message)


def test_a_kill_is_reported_with_the_signal() -> None:
    assert failure_message(check_codec, Codec(bad_plugins.be_killed)).endswith(
        "in the call compress(1 bytes, level=None): killed by SIGKILL"
    )


def test_a_crash_is_reported_with_the_traceback() -> None:
    message = failure_message(check_codec, Codec(bad_plugins.crash))
    assert (
        "in the call compress(1 bytes, level=None): killed by SIGSEGV\nIt wrote:\nFatal Python error: Segmentation "
        "fault\n" in message
    )
    assert re.search(r"line \d+ in crash\n.* in compress$", message, re.MULTILINE)  # then, from 3.14 on, C's stack


@for_each("isolated", [True, False])
def test_an_exception_is_reported_with_call_and_traceback(isolated: bool) -> None:
    """SystemExit is reported like any other exception."""
    message = failure_message(check_codec, Codec(bad_plugins.quit_politely), isolated=isolated)
    sentence = 'fails the check "a round trip returns the same bytes"'
    assert f"{sentence}: compress(1 bytes, level=None) raised SystemExit: 5\n" in message
    assert "in quit_politely\n    raise SystemExit(5)" in message
    assert "kqueue/testing" not in message


def test_standard_error_is_passed_on(capfd: pytest.CaptureFixture[str]) -> None:
    check_codec(Codec(bad_plugins.complain))
    out, err = capfd.readouterr()
    assert out == ""
    assert set(err.splitlines()) == {"mind the gap"}


# --- loading


@pytest.mark.long
def test_a_plugin_is_loaded_by_path() -> None:
    check_codec(f"{bad_plugins.__name__}:SOUND")
    message = failure_message(check_codec, f"{bad_plugins.__name__}:LEAVING")
    assert message.startswith("codec 'bad' (kqueue.tests.testing.bad_plugins.Codec) ended its process")
    check_codec(f"{bad_plugins.__name__}:SOUND", isolated=False)


@pytest.mark.long
def test_modules_are_found_on_sys_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quick_codec.py").write_text(
        "from kqueue.records.codecs import CODECS\nprint('loaded')\nCODEC = CODECS.get('none')\n"
    )
    (tmp_path / "stillborn.py").write_text("import os\nos._exit(4)\n")
    (tmp_path / "broken.py").write_text("raise KeyError('no such thing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    check_codec("quick_codec:CODEC")
    assert "quick_codec" not in sys.modules, "a path is imported in the other process alone"
    assert (
        failure_message(check_codec, "stillborn:CODEC")
        == "codec stillborn:CODEC ended its process while it was loaded: exit status 4"
    )
    message = failure_message(check_codec, "broken:CODEC")
    assert message.startswith('codec broken:CODEC fails the check "it can be loaded": ')
    assert "KeyError: 'no such thing'" in message
    assert re.search(r"broken.py\", line 1, in <module>\n    raise KeyError\('no such thing'\)$", message)
    assert "'quick_codec' has no 'OTHER'" in failure_message(check_codec, "quick_codec:OTHER")
    assert "expected a name, or a path like package.module:object" in failure_message(check_codec, "quick_codec")


@pytest.mark.long
def test_an_import_that_hangs_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endless.py").write_text("def f():\n    while True: pass\nf()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(isolation, "LOAD_LIMIT_S", 0.5)
    message = failure_message(check_codec, "endless:CODEC", time_limit_s=0.1)
    assert message.startswith("codec endless:CODEC did not finish within 0.5 s while it was loaded. Traceback:\n")
    assert re.search(r"endless.py\", line 2 in f\n", message)


@pytest.mark.long
def test_a_module_outside_sys_path_is_loaded_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytest loads test modules like this with --import-mode=importlib."""
    source = (
        "from kqueue.records.codecs.none import NoneCodec\nclass Mine(NoneCodec):\n    name = 'mine'\n    id = 6\n"
        "MINE = Mine()\n"
    )
    (tmp_path / "test_mine.py").write_text(source)
    spec = importlib.util.spec_from_file_location("some.where.test_mine", tmp_path / "test_mine.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("some", "some.where"):
        package = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(name, None, is_package=True))
        monkeypatch.setitem(sys.modules, name, package)
    monkeypatch.setitem(sys.modules, "some.where.test_mine", module)
    check_codec(module.Mine())
    (tmp_path / "test_mine.py").write_text(source.replace("id = 6", "id = 66"))
    assert "id must be from 0 to 7" in failure_message(check_codec, module.Mine())
    assert "id must be from 0 to 7" in failure_message(check_codec, "some.where.test_mine:MINE")


def test_a_plugin_that_cannot_be_pickled_is_reported() -> None:
    class Local(Codec):
        pass

    with pytest.raises(TypeError, match=r"can't be checked in a process of its own: .*'module:object'.*isolated=False"):
        check_codec(Local(int))
    check_codec(Local(int), isolated=False)
    with pytest.raises(TypeError, match=r"<function .*<lambda>.* can't be checked in a process of its own"):
        check_storage(lambda folder: bad_plugins.HarmfulStorage(folder, int))


def test_a_plugin_defined_in_the_main_program_is_refused(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from kqueue.testing import check_codec\nfrom kqueue.records.codecs.none import NoneCodec\n"
        "class Mine(NoneCodec):\n    pass\ncheck_codec(Mine())\n"
    )
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "TypeError" in result.stderr
    assert "it is defined in the main program" in result.stderr


@pytest.mark.long
def test_built_in_and_guarded_plugins_can_be_pickled() -> None:
    check_codec(CODECS.get("lz4"))
    check_codec(CODECS.guarded("mine", Codec(int), "here"))


def test_the_child_process_ends_with_its_parent(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "import os, pathlib, threading\nfrom kqueue.tests.testing.bad_plugins import Codec\n"
        "def wait():\n    pathlib.Path('pid.new').write_text(str(os.getpid()))\n"
        "    os.rename('pid.new', 'pid')\n    threading.Event().wait()\n"
        "CODEC = Codec(wait)\n"
    )
    program = "from kqueue.testing import check_codec; check_codec('waiting:CODEC')"
    where = os.pathsep.join([str(tmp_path), *sys.path])
    with started([sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": where}) as process:
        eventually((tmp_path / "pid").exists)
        other = int((tmp_path / "pid").read_text())
        assert psutil.pid_exists(other)
        process.kill()
    eventually(lambda: not psutil.pid_exists(other) or psutil.Process(other).status() == psutil.STATUS_ZOMBIE)


def test_importing_the_package_imports_no_submodule() -> None:
    code = (
        "import sys, kqueue; before = set(sys.modules); import kqueue.testing; "
        "print(sorted(name for name in sys.modules.keys() - before if name.startswith('kqueue.')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert result.stdout.strip() == "['kqueue.testing']"


def test_all_exported_names_exist() -> None:
    assert {contract.checker for contract in CONTRACTS_OF_PLUGINS if contract.checker} <= set(kqueue.testing.__all__)
    assert [name for name in kqueue.testing.__all__ if not hasattr(kqueue.testing, name)] == []
    with pytest.raises(AttributeError, match="nothing_of_it"):
        _ = kqueue.testing.nothing_of_it


@pytest.mark.long
def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('a module of the current folder was imported')")
    monkeypatch.chdir(tmp_path)
    check_codec(CODECS.get("gzip"))
