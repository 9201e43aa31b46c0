"""Runs contract checks in a child process, so that a plugin that hangs or crashes is reported.

The child writes a journal to a file that outlives it. The journal names the last check and the last
call of the plugin.

    request, on standard input: three pickles:
        sys.path
        checks, options, folder
        modules, time limits, pickled plugin
    journal, on standard output: one JSON list per line: [kind, text], kinds as in `_Journal`
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pickle
import pickletools
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from typing import IO, Any, NamedTuple

from kqueue.base.registry import import_object
from kqueue.testing.contract_checks import Checks, ContractFailure, first_failure, name_in, sentence, where

START_LIMIT_S = 60.0
LOAD_LIMIT_S = 10.0
_OUTPUT_MAX = 3000
# The child uses the sys.path of this process, but does not import the user's main program: that
# would run it a second time.
_BEGIN = (
    "import pickle, sys; sys.path[:] = pickle.load(sys.stdin.buffer); from kqueue.testing.isolation import main; main()"
)
_OVER = re.compile(r"^Timeout \(.*\)!\n", re.MULTILINE)
_FATAL = re.compile(r"^Fatal Python error: .*\n\n", re.MULTILINE)
_HERE = str(Path(__file__).parent) + os.sep


def check_contract(
    checks: Checks, plugin: object, options: Mapping[str, Any], *, time_limit_s: float, isolated: bool
) -> None:
    """Run all `checks` on `plugin`, an object or its ``module:object`` path.

    Args:
        options: passed to the checks; picklable.
        time_limit_s: limit for all checks together, in seconds, above 0. Loading has the same
            limit, but at least 10 s.
        isolated: run in a child process. If False, there is no time limit, and a plugin that
            crashes ends the caller's process.
    Raises:
        AssertionError: a check failed; the message names plugin, check, input and result.
        TypeError: the plugin cannot be sent to another process.
        PluginError: the path was not found in this process.
    """
    assert time_limit_s > 0, f"time_limit_s={time_limit_s}: expected more than 0"
    with tempfile.TemporaryDirectory(prefix="kqueue-check-", ignore_cleanup_errors=True) as folder:
        if isolated:
            message = _check_isolated(checks, plugin, {**options}, Path(folder), time_limit_s)
        else:
            message = _check_here(checks, plugin, options, Path(folder))
    if message is not None:
        raise AssertionError(message)


def _check_here(checks: Checks, plugin: object, options: Mapping[str, Any], folder: Path) -> str | None:
    checked = import_object(plugin, checks.noun) if isinstance(plugin, str) else plugin
    failure = first_failure(checks, checked, options, folder, lambda kind, text: None)
    return None if failure is None else sentence(name_in(checks, checked), failure)


# --- the caller's side


class _Module(NamedTuple):
    """A module, and the place that this process loaded it from; pytest also loads modules outside
    sys.path.

    `file` is None for a namespace package.
    """

    name: str
    file: str | None
    folders: list[str] | None


def _check_isolated(
    checks: Checks, plugin: object, options: dict[str, Any], folder: Path, limit_s: float
) -> str | None:
    request = _request(checks, plugin, options, folder, limit_s)
    with tempfile.TemporaryFile() as journal, tempfile.TemporaryFile() as errors:
        status = _run(request, journal, errors, START_LIMIT_S + max(limit_s, LOAD_LIMIT_S) + 2 * limit_s)
        journal.seek(0)
        errors.seek(0)
        notes = _Journal.read(journal)
        written = errors.read().decode(errors="replace")
    if notes.failure is None and notes.ended:
        sys.stderr.write(written)
        return None
    name = notes.name or _display_name(checks, plugin)
    if notes.failure is not None:
        return sentence(name, notes.failure)
    return f"{name} {_describe_end(status, notes, written, limit_s)}"


def _display_name(checks: Checks, plugin: object) -> str:
    return f"{checks.noun} {plugin}" if isinstance(plugin, str) else name_in(checks, plugin)


def _request(checks: Checks, plugin: object, options: dict[str, Any], folder: Path, limit_s: float) -> bytes:
    try:
        sent = pickle.dumps(plugin)
    except Exception as error:  # pickling runs code of the object, which may raise anything
        raise TypeError(_not_picklable_message(plugin, error)) from error
    modules = _modules_in(sent)
    if any(module.name == "__main__" for module in modules):
        raise TypeError(
            _not_picklable_message(plugin, "it is defined in the main program, which another process would run again")
        )
    limits = max(limit_s, LOAD_LIMIT_S), limit_s
    return pickle.dumps(sys.path) + pickle.dumps((checks, options, str(folder))) + pickle.dumps((modules, limits, sent))


def _not_picklable_message(plugin: object, why: object) -> str:
    return (
        f"{plugin!r:.200} can't be checked in a process of its own: {why}. Pass an object that is defined in a module "
        "under its own name, "
        "or its path as 'module:object'; or check it in this process with isolated=False."
    )


def _modules_in(sent: bytes) -> list[_Module]:
    """Return the modules that the pickle names, and their parent packages."""
    names: dict[str, None] = {}
    for _, value, _ in pickletools.genops(sent):
        module_name = value.partition(":")[0] if isinstance(value, str) else ""
        if module_name in sys.modules:
            parts = module_name.split(".")
            names.update(dict.fromkeys(".".join(parts[:count]) for count in range(1, len(parts) + 1)))
    modules = []
    for name in names:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        folders = getattr(module, "__path__", None)
        if file is not None or folders is not None or name == "__main__":
            modules.append(_Module(name, file, None if folders is None else list(folders)))
    return modules


def _run(request: bytes, journal: IO[bytes], errors: IO[bytes], kill_after_s: float) -> int | None:
    """Run the child process and return its exit status.

    The child ends itself at its time limit. None: it did not, and was killed after `kill_after_s`.
    """
    # a new hash seed per process, so that checks detect a dependence on Python's hashes
    environment = {**os.environ, "PYTHONHASHSEED": str(random.SystemRandom().randrange(1, 1 << 32))}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _BEGIN], stdin=subprocess.PIPE, stdout=journal, stderr=errors, env=environment
    )
    kill_timer = threading.Timer(kill_after_s, process.kill)
    kill_timer.daemon = True
    kill_timer.start()
    assert process.stdin is not None, "the child was started without a pipe"
    try:
        # standard input stays open while the caller waits: the child ends when it is closed
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
        status = process.wait()
        return None if kill_timer.finished.is_set() else status
    finally:
        kill_timer.cancel()
        process.kill()
        process.wait()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _describe_end(status: int | None, notes: _Journal, written: str, limit_s: float) -> str:
    during = f'in the check "{notes.check}"' if notes.check else "while it was loaded"
    if notes.asked:
        during += f", in the call {notes.asked}"
    before, traceback = _split_stderr(written)
    wrote = f"\nIt wrote:\n{before[-_OUTPUT_MAX:].rstrip()}" if before.strip() else ""
    if traceback is not None:
        limit_s = limit_s if notes.check else max(limit_s, LOAD_LIMIT_S)
        return f"did not finish within {limit_s:g} s {during}. Traceback:\n{traceback[:_OUTPUT_MAX]}{wrote}"
    if status is None:
        return f"did not finish within {limit_s:g} s {during}, and no traceback is available{wrote}"
    return f"ended its process {during}: {_status(status)}{wrote}"


def _split_stderr(written: str) -> tuple[str, str | None]:
    """Return what was written to standard error, and the threads' traceback at the time limit.

    The traceback is None if the time limit was not reached.
    """
    over = list(_OVER.finditer(written))
    if over:
        return written[: over[-1].start()], _frames(written[over[-1].end() :])
    fatal = list(_FATAL.finditer(written))
    if fatal:
        return written[: fatal[-1].end()] + _frames(written[fatal[-1].end() :]), None
    return written, None


def _frames(dump: str) -> str:
    """Return the plugin's frames of each thread in a faulthandler dump, innermost first.

    Frames of the checks and of other threads are omitted.
    """
    frames: dict[str, None] = {}
    for thread in dump.split("\n\n"):
        lines = thread.splitlines()[1:]
        own = next((number for number, line in enumerate(lines) if _HERE in line), len(lines))
        frames["\n".join(lines[:own])] = None
    return "\n\n".join(text for text in frames if text)


def _status(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _Journal:
    """The child's progress: plugin `name`, last `check` and call, `failure` and end."""

    def __init__(self) -> None:
        self.name = self.check = self.asked = ""
        self.failure: ContractFailure | None = None
        self.ended = False

    @classmethod
    def read(cls, lines: IO[bytes]) -> _Journal:
        notes = cls()
        for line in lines:
            try:
                kind, value = json.loads(line)
            except ValueError:  # the child ended while writing the line
                break
            if kind == "failed":
                notes.failure = ContractFailure(*value)
            elif kind == "ended":
                notes.ended = True
            elif kind in ("name", "check", "asked"):
                setattr(notes, kind, value)
        return notes


# --- the child process


def main() -> None:
    """Entry point of the child: reads one request from standard input, runs it and exits.

    The child also exits when its standard input is closed.
    """
    faulthandler.enable()
    journal = os.fdopen(os.dup(1), "wb", buffering=0)
    printed = _CapturedOutput()

    def note(kind: str, value: object) -> None:
        journal.write(json.dumps([kind, value]).encode() + b"\n")

    checks, options, folder = pickle.load(sys.stdin.buffer)
    modules, (load_limit_s, limit_s), sent = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_exit_at_eof, args=(os.dup(0),), daemon=True).start()
    _close_input()
    sys.meta_path.insert(0, _Finder(modules))
    faulthandler.dump_traceback_later(load_limit_s, exit=True)
    failure = _load_and_check(checks, options, Path(folder), sent, note, printed, limit_s)
    faulthandler.cancel_dump_traceback_later()
    if failure is not None:
        note("failed", [failure.promise, failure.what])
    note("ended", "")
    os._exit(0)


def _load_and_check(
    checks: Checks,
    options: dict[str, Any],
    folder: Path,
    sent: bytes,
    note: Any,
    printed: _CapturedOutput,
    limit_s: float,
) -> ContractFailure | None:
    try:
        plugin = pickle.loads(sent)
        if isinstance(plugin, str):
            plugin = import_object(plugin, checks.noun)
    except BaseException as error:
        cause = error.__cause__ or error
        return ContractFailure("it can be loaded", f"{type(error).__name__}: {error}\n{where(cause)}".rstrip())
    note("name", name_in(checks, plugin))
    printed.take()  # discards output of imports, which may come from other modules
    faulthandler.dump_traceback_later(limit_s, exit=True)
    return first_failure(checks, plugin, options, folder, note, printed.take)


class _CapturedOutput:
    """Redirects standard output, including that of C code, to a file."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open until the process ends
        self._position = 0
        os.dup2(self._file.fileno(), 1)

    def take(self) -> str:
        sys.stdout.flush()
        size = os.fstat(self._file.fileno()).st_size
        if size == self._position:
            return ""
        with open(os.dup(self._file.fileno()), "rb") as copy:
            copy.seek(self._position)
            text = copy.read()
            copy.seek(size)
        self._position = size
        return text.decode(errors="replace")


class _Finder:
    """Imports the plugin's modules from the files that the caller loaded them from."""

    def __init__(self, modules: list[_Module]) -> None:
        self._modules = {module.name: module for module in modules}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        module = self._modules.get(name)
        if module is None:
            return None
        if module.file is not None:
            return spec_from_file_location(name, module.file, submodule_search_locations=module.folders)
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = module.folders
        return spec


def _close_input() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _exit_at_eof(asked: int) -> None:
    while os.read(asked, 4096):
        pass
    os._exit(1)
