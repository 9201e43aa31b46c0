"""What a plugin does to its process is told in its author's test, and harms nobody else."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import kqueue.testing
from kqueue.config.plugins import CONTRACTS as CONTRACTS_OF_PLUGINS
from kqueue.records.codecs import CODECS
from kqueue.testing import (
    check_cleanup_policy,
    check_codec,
    check_metadata_store,
    check_partitioner,
    check_storage,
    isolation,
)
from kqueue.tests.testing import bad_plugins
from kqueue.tests.testing.bad_plugins import Codec, Factory, Policy, StorageOpener, StoreOpener

# of each contract: its checker, a plugin that can be told how to fail, what it is called, and the
# check and the call in which it fails
CONTRACTS: dict[str, tuple[Callable[..., None], Any, str, str, str]] = {
    "codec": (check_codec, Codec, "codec 'bad'", "what was compressed comes back", r"compress\(1 bytes, level=None\)"),
    "partitioner": (
        check_partitioner,
        Factory,
        "partitioner 'bad'",
        "one of the topic's partitions",
        r"partition\(key=b'', count=",
    ),
    "policy": (
        check_cleanup_policy,
        Policy,
        "cleanup policy 'bad'",
        "plans drops and compactions",
        r"plan for LogView\(topic='t'",
    ),
    "storage": (check_storage, StorageOpener, "storage 'bad'", "appends go to the end", r"storage\.read\('a\.log'\)"),
    "store": (
        check_metadata_store,
        StoreOpener,
        "metadata store 'bad'",
        "what was committed is read back",
        r"read\('/topics/b'\)",
    ),
}


def wait_until(true: Callable[[], bool], within_s: float = 20) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)


def told(check: Callable[..., None], plugin: object, **options: Any) -> str:
    """What the checker says of a plugin that breaks its word."""
    with pytest.raises(AssertionError) as raised:
        check(plugin, **options)
    return str(raised.value)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_that_hangs_is_named_with_the_check_the_call_and_where_it_stood(contract: str) -> None:
    check, plugin, name, promise, call = CONTRACTS[contract]
    said = told(check, plugin(bad_plugins.hang), time_limit_s=0.5)
    assert said.startswith(name)
    assert re.search(rf"did not come to an end within 0.5 s in the check \".*{promise}.*\", asked for {call}", said)
    assert re.search(r"It stood at:\n  File \".*bad_plugins.py\", line \d+ in hang\n", said)
    assert "isolation.py" not in said


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_that_ends_its_process_is_named_with_the_check_the_call_and_the_status(contract: str) -> None:
    check, plugin, name, promise, call = CONTRACTS[contract]
    said = told(check, plugin(bad_plugins.leave))
    assert said.startswith(
        f"{name} (kqueue.tests.testing.bad_plugins.{plugin.__name__}) ended its process in the check "
    )
    assert re.search(rf"{promise}.*, asked for {call}.*: exit status 3$", said)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_that_prints_is_named_with_what_it_printed(contract: str) -> None:
    check, plugin, name, promise, _ = CONTRACTS[contract]
    said = told(check, plugin(bad_plugins.say))
    assert said.startswith(name)
    assert "it prints nothing to standard output" in said
    assert re.search(rf"in the check \".*{promise}.*\" it printed 'hello\\n", said)


def test_one_that_is_killed_is_named_with_the_signal() -> None:
    assert told(check_codec, Codec(bad_plugins.be_killed)).endswith(
        "asked for compress(1 bytes, level=None): killed by SIGKILL"
    )


def test_one_that_crashes_is_named_with_the_calls_that_led_there() -> None:
    said = told(check_codec, Codec(bad_plugins.crash))
    assert (
        "asked for compress(1 bytes, level=None): killed by SIGSEGV\nIt wrote:\nFatal Python error: Segmentation "
        "fault\n" in said
    )
    assert re.search(r"line \d+ in crash\n.* in compress$", said)


@pytest.mark.parametrize("isolated", [True, False])
def test_one_that_raises_is_named_with_the_call_and_the_traceback(isolated: bool) -> None:
    """SystemExit is no less an error of its than another."""
    said = told(check_codec, Codec(bad_plugins.quit_politely), isolated=isolated)
    promise = 'does not keep its promise "what was compressed comes back, byte for byte"'
    assert f"{promise}: compress(1 bytes, level=None) raised SystemExit: 5\n" in said
    assert "in quit_politely\n    raise SystemExit(5)" in said
    assert "kqueue/testing" not in said


def test_warnings_are_passed_on_and_do_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    check_codec(Codec(bad_plugins.complain))
    out, err = capfd.readouterr()
    assert out == ""
    assert set(err.splitlines()) == {"mind the gap"}


# --- how it is found


def test_a_path_is_taken_too() -> None:
    check_codec(f"{bad_plugins.__name__}:SOUND")
    said = told(check_codec, f"{bad_plugins.__name__}:LEAVING")
    assert said.startswith("codec 'bad' (kqueue.tests.testing.bad_plugins.Codec) ended its process")
    check_codec(f"{bad_plugins.__name__}:SOUND", isolated=False)


def test_modules_are_found_where_this_process_finds_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "quick_codec.py").write_text(
        "from kqueue.records.codecs import CODECS\nprint('loaded')\nCODEC = CODECS.get('none')\n"
    )
    (tmp_path / "stillborn.py").write_text("import os\nos._exit(4)\n")
    (tmp_path / "broken.py").write_text("raise KeyError('no such thing')\n")
    monkeypatch.syspath_prepend(tmp_path)
    check_codec("quick_codec:CODEC")
    assert "quick_codec" not in sys.modules, "a path is imported in the other process alone"
    assert (
        told(check_codec, "stillborn:CODEC")
        == "codec stillborn:CODEC ended its process while it was loaded: exit status 4"
    )
    said = told(check_codec, "broken:CODEC")
    assert said.startswith('codec broken:CODEC does not keep its promise "it can be loaded": ')
    assert "KeyError: 'no such thing'" in said
    assert re.search(r"broken.py\", line 1, in <module>\n    raise KeyError\('no such thing'\)$", said)
    assert "'quick_codec' has no 'OTHER'" in told(check_codec, "quick_codec:OTHER")
    assert "expected a name, or a path like package.module:object" in told(check_codec, "quick_codec")


def test_a_module_whose_import_does_not_end_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "endless.py").write_text("def f():\n    while True: pass\nf()\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(isolation, "LOAD_LIMIT_S", 0.5)
    said = told(check_codec, "endless:CODEC", time_limit_s=0.1)
    assert said.startswith(
        "codec endless:CODEC did not come to an end within 0.5 s while it was loaded. It stood at:\n"
    )
    assert re.search(r"endless.py\", line 2 in f\n", said)


def test_a_module_that_no_import_finds_is_taken_from_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pytest has test modules with --import-mode=importlib."""
    source = "from kqueue.records.codecs.none import NoneCodec\nclass Mine(NoneCodec):\n    name = 'mine'\n    id = 6\nMINE = Mine()\n"
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
    assert "id must be from 0 to 7" in told(check_codec, module.Mine())
    assert "id must be from 0 to 7" in told(check_codec, "some.where.test_mine:MINE")


def test_what_cant_be_sent_is_told_with_what_to_do() -> None:
    class Local(Codec):
        pass

    with pytest.raises(TypeError, match=r"can't be checked in a process of its own: .*'module:object'.*isolated=False"):
        check_codec(Local(int))
    check_codec(Local(int), isolated=False)
    with pytest.raises(TypeError, match=r"<function .*<lambda>.* can't be checked in a process of its own"):
        check_storage(lambda folder: bad_plugins.HarmfulStorage(folder, int))


def test_what_is_defined_in_the_program_itself_is_not_run_a_second_time(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from kqueue.testing import check_codec\nfrom kqueue.records.codecs.none import NoneCodec\n"
        "class Mine(NoneCodec):\n    pass\ncheck_codec(Mine())\n"
    )
    result = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "TypeError" in result.stderr
    assert "it is defined in the program that was started" in result.stderr


def test_built_ins_and_what_stands_behind_a_guard_can_be_sent() -> None:
    check_codec(CODECS.get("lz4"))
    check_codec(CODECS.guarded("mine", Codec(int), "here"))


def test_its_process_ends_with_ours(tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(
        "import os, pathlib, threading\nfrom kqueue.tests.testing.bad_plugins import Codec\n"
        "def wait():\n    pathlib.Path('pid.new').write_text(str(os.getpid()))\n"
        "    os.rename('pid.new', 'pid')\n    threading.Event().wait()\n"
        "CODEC = Codec(wait)\n"
    )
    program = "from kqueue.testing import check_codec; check_codec('waiting:CODEC')"
    where = os.pathsep.join([str(tmp_path), *sys.path])
    with subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": where}
    ) as process:
        wait_until((tmp_path / "pid").exists)
        other = int((tmp_path / "pid").read_text())
        assert psutil.pid_exists(other)
        process.kill()
    wait_until(lambda: not psutil.pid_exists(other) or psutil.Process(other).status() == psutil.STATUS_ZOMBIE)


def test_importing_the_package_imports_none_of_it() -> None:
    code = (
        "import sys, kqueue; before = set(sys.modules); import kqueue.testing; "
        "print(sorted(name for name in sys.modules.keys() - before if name.startswith('kqueue.')))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}
    )
    assert result.stdout.strip() == "['kqueue.testing']"


def test_all_that_the_package_promises_is_there() -> None:
    assert {contract.checker for contract in CONTRACTS_OF_PLUGINS if contract.checker} <= set(kqueue.testing.__all__)
    assert all(callable(getattr(kqueue.testing, name)) for name in kqueue.testing.__all__)
    with pytest.raises(AttributeError, match="nothing_of_it"):
        _ = kqueue.testing.nothing_of_it


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pickle.py").write_text("raise SystemExit('a module of the current folder was imported')")
    monkeypatch.chdir(tmp_path)
    check_codec(CODECS.get("gzip"))
