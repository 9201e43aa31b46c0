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
from kqueue.tests.tables import for_each
from kqueue.workers.executor import JobExecutor
from kqueue.workers.subprocess_runner import SubprocessRunner


@dataclass(frozen=True)
class Where:
    """A task that returns its process id, and prints on the way."""

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
    """Writes its pid to a file, then runs forever."""

    path: str

    def __call__(self) -> None:
        Path(self.path).write_text(str(os.getpid()))
        while True:
            pass


def pid_in(path: Path, waiting: threading.Event) -> int:
    while not (path.exists() and path.read_text()):
        waiting.wait(0.01)
    return int(path.read_text())


def test_task_runs_in_another_process_and_returns_its_result() -> None:
    pid, text = SubprocessRunner().run(Where("x" * 100_000))
    assert pid != os.getpid()
    assert text == "x" * 200_000
    assert not psutil.pid_exists(pid)


@pytest.mark.long
@for_each(
    "task, error, text",
    [
        (Fail(), CorruptBatch, "expected 1, found 2"),
        (Die(), ProcessDied, "status 3"),
        (KillMyself(), ProcessDied, "killed by SIGKILL"),
        (BringALock(), JobFailed, "can't be sent back"),
        (lambda: 1, JobFailed, "can't be sent to another process"),
    ],
)
def test_failures_are_reported(task: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        SubprocessRunner().run(task)


def test_missing_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/such/python")
    with pytest.raises(JobFailed, match="can't start /no/such/python"):
        SubprocessRunner().run(Where())


def test_cancelled_work_ends_at_once_and_none_starts_afterwards(tmp_path: Path) -> None:
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


def test_process_ends_with_its_parent(tmp_path: Path) -> None:
    """If the broker is killed, the next one must not find a process that works on its files."""
    code = (
        "from kqueue.tests.workers.test_subprocess_runner import *; "
        f"SubprocessRunner().run(Hang({str(tmp_path / 'pid')!r}))"
    )
    with psutil.Popen([sys.executable, "-c", code]) as broker:
        worker = psutil.Process(pid_in(tmp_path / "pid", threading.Event()))
        broker.kill()
    assert worker.wait(60) is not None or not worker.is_running()


HOSTILE = "raise SystemExit('a module of the current folder was imported')"


def test_modules_in_the_current_folder_are_not_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pickle", "sys", "struct", "threading", "kqueue"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    monkeypatch.chdir(tmp_path)
    assert SubprocessRunner().run(Where("x"))[1] == "xx"


def test_module_on_the_parents_path_is_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "of_the_user.py").write_text("def task():\n    return 5\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert SubprocessRunner().run(importlib.import_module("of_the_user").task) == 5


def test_job_on_memory_storage_runs_in_a_thread() -> None:
    async def run() -> list[Any]:
        jobs, ended = JobExecutor(asyncio.get_running_loop(), 1), list[Any]()
        jobs.submit(CpuJob("here", Where("a"), lambda result, error: ended.append((result, error)), shared=False))
        await jobs.drain()
        jobs.stop()
        return ended

    assert asyncio.run(run()) == [((os.getpid(), "aa"), None)]
