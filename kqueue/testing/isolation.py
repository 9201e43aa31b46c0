"""Holds a plugin against its contract in a process of its own, so that one that hangs or dies is
named and takes nobody along.

The process writes down what it does, line by line, in a file that outlives it: that tells the check
and the call that was its last.

    request, on standard input:  sys.path | checks, options, folder | modules, time limits, the plugin        (three pickles)
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
_TOLD_MAX = 3000
# The process finds modules where this one does, but imports nothing of the user's program: that
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
    """Try all promises of `checks` with `plugin`, an object or the ``module:object`` path of one.

    Args: options: for the checks, picklable. time_limit_s: for all checks together, more than 0; loading may take as long, 10 s at least.
        isolated: in a process of its own. Without, there is no time limit, and a plugin that dies takes the caller along.
    Raises: AssertionError: a promise is broken; the message names plugin, promise, input and what was found. TypeError: the plugin can't be
        sent to another process. PluginError: it can't be found in this one.
    """
    assert time_limit_s > 0, f"a time limit is more than 0 s, found {time_limit_s}"
    with tempfile.TemporaryDirectory(prefix="kqueue-check-", ignore_cleanup_errors=True) as folder:
        if isolated:
            told = _try_elsewhere(checks, plugin, {**options}, Path(folder), time_limit_s)
        else:
            told = _try_here(checks, plugin, options, Path(folder))
    if told is not None:
        raise AssertionError(told)


def _try_here(checks: Checks, plugin: object, options: Mapping[str, Any], folder: Path) -> str | None:
    found = import_object(plugin, checks.noun) if isinstance(plugin, str) else plugin
    failure = first_failure(checks, found, options, folder, lambda kind, text: None)
    return None if failure is None else sentence(name_in(checks, found), failure)


# --- the caller's side


class _Module(NamedTuple):
    """Where this process has a module from; pytest may have loaded it from where no import looks.
    `file` None: a folder without one.
    """

    name: str
    file: str | None
    folders: list[str] | None


def _try_elsewhere(checks: Checks, plugin: object, options: dict[str, Any], folder: Path, limit_s: float) -> str | None:
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
    name = notes.name or _called(checks, plugin)
    if notes.failure is not None:
        return sentence(name, notes.failure)
    return f"{name} {_how_it_ended(status, notes, written, limit_s)}"


def _called(checks: Checks, plugin: object) -> str:
    return f"{checks.noun} {plugin}" if isinstance(plugin, str) else name_in(checks, plugin)


def _request(checks: Checks, plugin: object, options: dict[str, Any], folder: Path, limit_s: float) -> bytes:
    try:
        sent = pickle.dumps(plugin)
    except Exception as error:  # pickle raises whatever the object does
        raise TypeError(_unsendable(plugin, error)) from error
    modules = _modules_in(sent)
    if any(module.name == "__main__" for module in modules):
        raise TypeError(
            _unsendable(plugin, "it is defined in the program that was started, which another process would run again")
        )
    limits = max(limit_s, LOAD_LIMIT_S), limit_s
    return pickle.dumps(sys.path) + pickle.dumps((checks, options, str(folder))) + pickle.dumps((modules, limits, sent))


def _unsendable(plugin: object, why: object) -> str:
    return (
        f"{plugin!r:.200} can't be checked in a process of its own: {why}. Give an object that stands in a module "
        "under its own name, "
        "or its path as 'module:object'; or check it in this process, with isolated=False."
    )


def _modules_in(sent: bytes) -> list[_Module]:
    """The modules that the pickle names, and the packages above them."""
    names: dict[str, None] = {}
    for _, value, _ in pickletools.genops(sent):
        module_name = value.partition(":")[0] if isinstance(value, str) else ""
        if module_name in sys.modules:
            parts = module_name.split(".")
            names.update(dict.fromkeys(".".join(parts[:count]) for count in range(1, len(parts) + 1)))
    found = []
    for name in names:
        module = sys.modules.get(name)
        file = getattr(module, "__file__", None)
        folders = getattr(module, "__path__", None)
        if file is not None or folders is not None or name == "__main__":
            found.append(_Module(name, file, None if folders is None else list(folders)))
    return found


def _run(request: bytes, journal: IO[bytes], errors: IO[bytes], patience_s: float) -> int | None:
    """The status with which the process ended; it ends itself at its time limit. None: it could
    not, and was killed after `patience_s`.
    """
    # hashes of their own in each, so that what leans on Python's is found
    environment = {**os.environ, "PYTHONHASHSEED": str(random.SystemRandom().randrange(1, 1 << 32))}
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", _BEGIN], stdin=subprocess.PIPE, stdout=journal, stderr=errors, env=environment
    )
    impatient = threading.Timer(patience_s, process.kill)
    impatient.daemon = True
    impatient.start()
    assert process.stdin is not None, "it was started with a pipe"
    try:
        # standard input stays open until the process has ended: that tells it that somebody waits
        with contextlib.suppress(BrokenPipeError):
            process.stdin.write(request)
            process.stdin.flush()
        status = process.wait()
        return None if impatient.finished.is_set() else status
    finally:
        impatient.cancel()
        process.kill()
        process.wait()
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()


def _how_it_ended(status: int | None, notes: _Journal, written: str, limit_s: float) -> str:
    during = f'in the check "{notes.check}"' if notes.check else "while it was loaded"
    if notes.asked:
        during += f", asked for {notes.asked}"
    before, stood = _last_words(written)
    wrote = f"\nIt wrote:\n{before[-_TOLD_MAX:].rstrip()}" if before.strip() else ""
    if stood is not None:
        limit_s = limit_s if notes.check else max(limit_s, LOAD_LIMIT_S)
        return f"did not come to an end within {limit_s:g} s {during}. It stood at:\n{stood[:_TOLD_MAX]}{wrote}"
    if status is None:
        return f"did not come to an end within {limit_s:g} s {during}, nor could it be asked where it stood{wrote}"
    return f"ended its process {during}: {_status(status)}{wrote}"


def _last_words(written: str) -> tuple[str, str | None]:
    """What was written to standard error, and where its threads stood when the time was over; None:
    it was not over.
    """
    over = list(_OVER.finditer(written))
    if over:
        return written[: over[-1].start()], _frames(written[over[-1].end() :])
    fatal = list(_FATAL.finditer(written))
    if fatal:
        return written[: fatal[-1].end()] + _frames(written[fatal[-1].end() :]), None
    return written, None


def _frames(dump: str) -> str:
    """The plugin's calls in each thread of a faulthandler dump, the innermost first, without those
    of the checks and of other threads.
    """
    found: dict[str, None] = {}
    for thread in dump.split("\n\n"):
        lines = thread.splitlines()[1:]
        own = next((number for number, line in enumerate(lines) if _HERE in line), len(lines))
        found["\n".join(lines[:own])] = None
    return "\n\n".join(text for text in found if text)


def _status(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"


class _Journal:
    """What the process has told of itself: the plugin's `name`, the `check` and the call that it
    began last, the `failure`, its end.
    """

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
            except ValueError:  # it died while it wrote
                break
            if kind == "failed":
                notes.failure = ContractFailure(*value)
            elif kind == "ended":
                notes.ended = True
            elif kind in ("name", "check", "asked"):
                setattr(notes, kind, value)
        return notes


# --- the other process


def main() -> None:
    """What runs in the process: one request, from standard input, whose end means that nobody waits
    any more.
    """
    faulthandler.enable()
    journal = os.fdopen(os.dup(1), "wb", buffering=0)
    printed = _Printed()

    def note(kind: str, value: object) -> None:
        journal.write(json.dumps([kind, value]).encode() + b"\n")

    checks, options, folder = pickle.load(sys.stdin.buffer)
    modules, (load_limit_s, limit_s), sent = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with, args=(os.dup(0),), daemon=True).start()
    _give_no_input()
    sys.meta_path.insert(0, _Finder(modules))
    faulthandler.dump_traceback_later(load_limit_s, exit=True)
    failure = _load_and_try(checks, options, Path(folder), sent, note, printed, limit_s)
    faulthandler.cancel_dump_traceback_later()
    if failure is not None:
        note("failed", [failure.promise, failure.what])
    note("ended", "")
    os._exit(0)


def _load_and_try(
    checks: Checks, options: dict[str, Any], folder: Path, sent: bytes, note: Any, printed: _Printed, limit_s: float
) -> ContractFailure | None:
    try:
        plugin = pickle.loads(sent)
        if isinstance(plugin, str):
            plugin = import_object(plugin, checks.noun)
    except BaseException as error:
        cause = error.__cause__ or error
        return ContractFailure("it can be loaded", f"{type(error).__name__}: {error}\n{where(cause)}".rstrip())
    note("name", name_in(checks, plugin))
    printed.take()  # what a module prints while it is imported may be somebody else's
    faulthandler.dump_traceback_later(limit_s, exit=True)
    return first_failure(checks, plugin, options, folder, note, printed.take)


class _Printed:
    """Takes the place of standard output, in Python and below it, and holds what comes."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - for the life of the process
        self._taken = 0
        os.dup2(self._file.fileno(), 1)

    def take(self) -> str:
        sys.stdout.flush()
        size = os.fstat(self._file.fileno()).st_size
        if size == self._taken:
            return ""
        with open(os.dup(self._file.fileno()), "rb") as copy:
            copy.seek(self._taken)
            text = copy.read()
            copy.seek(size)
        self._taken = size
        return text.decode(errors="replace")


class _Finder:
    """Finds the modules that the plugin needs where the caller has them from."""

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


def _give_no_input() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def _end_with(asked: int) -> None:
    while os.read(asked, 4096):
        pass
    os._exit(1)
