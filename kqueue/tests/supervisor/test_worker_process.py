from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from kqueue.supervisor.messages import READY, SERVES, Failure, WorkerOrder
from kqueue.supervisor.worker_process import WorkerProcess

ORDER = WorkerOrder(0, {}, {}, {}, (1,), {}, verbose=False, stop_s=1.0)
CHILD = """
import json, socket, sys
channel = socket.socket(fileno=int(sys.argv[-1])).makefile("rwb")
assert json.loads(channel.readline())["number"] == 0
def tell(message):
    channel.write(json.dumps(message).encode() + b"\\n")
    channel.flush()
"""


def children(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let processes of workers follow the protocol by other means than a broker."""
    real = asyncio.create_subprocess_exec

    def start(*args: str, **options: object) -> object:
        return real(sys.executable, "-c", CHILD + text, args[-1], **options)  # type: ignore[arg-type]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)


async def child(monkeypatch: pytest.MonkeyPatch, text: str) -> WorkerProcess:
    children(monkeypatch, text)
    return await WorkerProcess.start(ORDER)


def test_messages_of_the_worker_are_received(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        process = await child(
            monkeypatch, f"tell('{SERVES}'); tell('{READY}'); assert channel.readline() == b'\"open\"\\n'"
        )
        assert await process.said(process.serves)
        assert await process.said(process.is_ready)
        assert not process.gone.is_set()
        process.tell("open")
        await process.gone.wait()
        assert (process.exit_status, process.end_text, process.failure) == (0, "stopped", None)
        process.tell("open")  # to nobody

    asyncio.run(run())


@pytest.mark.parametrize(
    ("text", "failure", "end"),
    [
        ("tell({'failed': ['FolderInUse', 'locked']}); sys.exit(1)", Failure("FolderInUse", "locked"), "exit status 1"),
        ("channel.write(b'{\"fai'); channel.flush()", None, "stopped"),
        ("sys.exit(3)", None, "ended with exit status 3"),
    ],
)
def test_end_of_the_worker_is_described(
    monkeypatch: pytest.MonkeyPatch, text: str, failure: Failure | None, end: str
) -> None:
    async def run() -> None:
        process = await child(monkeypatch, text)
        assert not await process.said(process.serves)
        assert process.failure == failure
        assert end in process.end_text

    asyncio.run(run())


def test_a_signal_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        process = await child(monkeypatch, f"tell('{SERVES}'); channel.readline()")
        await process.said(process.serves)
        process.signal(signal.SIGKILL)
        await process.gone.wait()
        process.signal(signal.SIGKILL)  # to nobody
        assert (process.exit_status, process.end_text) == (-9, "was ended by SIGKILL")

    asyncio.run(run())
