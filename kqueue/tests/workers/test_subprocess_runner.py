from __future__ import annotations

import asyncio
import importlib
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from kqueue.base.errors import CorruptBatch, JobCancelled, JobFailed, ProcessDied
from kqueue.base.jobs import CpuJob
from kqueue.workers.executor import JobExecutor
from kqueue.workers.subprocess_runner import SubprocessRunner


@dataclass(frozen=True)
class Where:
    """A task that tells where it runs, and prints on the way."""

    text: str = ""

    def __call__(self) -> tuple[int, str]:
        print("this goes to standard error")
        return os.getpid(), self.text * 2


@dataclass(frozen=True)
class Fail:
    def __call__(self) -> None:
        raise CorruptBatch("expected 1, found 2")


@dataclass(frozen=True)
class Die:
    def __call__(self) -> None:
        os._exit(3)


class KillMyself:
    def __call__(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class BringALock:
    def __call__(self) -> object:
        return threading.Lock()


@dataclass(frozen=True)
class Hang:
    """Leaves its pid in a file, then works for ever."""

    path: str

    def __call__(self) -> None:
        Path(self.path).write_text(str(os.getpid()))
        while True:
            pass


def pid_in(path: Path, waiting: threading.Event) -> int:
    while not (path.exists() and path.read_text()):
        waiting.wait(0.01)
    return int(path.read_text())


def test_a_task_runs_in_another_process_and_brings_its_result() -> None:
    pid, text = SubprocessRunner().run(Where("x" * 100_000))
    assert pid != os.getpid()
    assert text == "x" * 200_000
    assert not psutil.pid_exists(pid)


@pytest.mark.parametrize(
    ("task", "error", "text"),
    [
        (Fail(), CorruptBatch, "expected 1, found 2"),
        (Die(), ProcessDied, "status 3"),
        (KillMyself(), ProcessDied, "killed by SIGKILL"),
        (BringALock(), JobFailed, "can't be sent back"),
        (lambda: 1, JobFailed, "can't be sent to another process"),
    ],
    ids=["raises", "dies", "killed", "result", "lambda"],
)
def test_what_goes_wrong_is_told(task: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        SubprocessRunner().run(task)


def test_an_interpreter_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(JobFailed, match="can't start /no/such/python"):
        SubprocessRunner().run(Where())


def test_cancelled_work_ends_at_once_and_none_is_begun_after(tmp_path: Path) -> None:
    async def run() -> list[BaseException | None]:
        jobs, errors = JobExecutor(asyncio.get_running_loop(), 1), list[BaseException | None]()
        jobs.submit(CpuJob("hang", Hang(str(tmp_path / "pid")), lambda result, error: errors.append(error)))
        pid = await asyncio.to_thread(pid_in, tmp_path / "pid", threading.Event())
        jobs.cancel_cpu()
        jobs.submit(CpuJob("late", Where(), lambda result, error: errors.append(error)))
        await jobs.drain()
        assert not psutil.pid_exists(pid)
        jobs.stop()
        return errors

    errors = asyncio.run(run())
    assert [type(error) for error in errors] == [JobCancelled, JobCancelled]


def test_a_process_ends_when_nobody_waits_for_it_any_more(tmp_path: Path) -> None:
    """The broker may be killed: the next one must not find somebody at work on its files."""
    code = f"from kqueue.tests.workers.test_subprocess_runner import *; SubprocessRunner().run(Hang({str(tmp_path / 'pid')!r}))"
    with psutil.Popen([sys.executable, "-c", code]) as broker:
        worker = psutil.Process(pid_in(tmp_path / "pid", threading.Event()))
        broker.kill()
    assert worker.wait(10) is not None or not worker.is_running()


HOSTILE = "raise SystemExit('a module of the current folder was imported')"


@pytest.mark.parametrize("name", ["pickle", "sys", "struct", "threading", "kqueue"])
def test_modules_in_the_current_folder_are_not_imported(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    assert SubprocessRunner().run(Where("x"))[1] == "xx"


def test_a_module_where_this_process_finds_its_modules_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_the_user.py").write_text("def task():\n    return 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert SubprocessRunner().run(importlib.import_module("of_the_user").task) == 5


def test_a_job_whose_files_are_in_memory_runs_in_a_thread() -> None:
    async def run() -> list[Any]:
        jobs, ended = JobExecutor(asyncio.get_running_loop(), 1), list[Any]()
        jobs.submit(CpuJob("here", Where("a"), lambda result, error: ended.append((result, error)), shared=False))
        await jobs.drain()
        jobs.stop()
        return ended

    assert asyncio.run(run()) == [((os.getpid(), "aa"), None)]
