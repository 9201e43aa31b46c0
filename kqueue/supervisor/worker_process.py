"""One process of a worker, as the supervisor sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys

from kqueue.supervisor.messages import FAILED, LINE_BYTES_MAX, READY, SERVES, Failure, WorkerOrder, encode


class WorkerProcess:
    """A started process.

    Attributes:
        serves, is_ready: it has said so; see `messages`.
        gone: it has ended.
        failure: why it does not serve, as far as it has said so.
    """

    def __init__(
        self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._process = process
        self._reader = reader
        self._writer = writer
        self.serves = asyncio.Event()
        self.is_ready = asyncio.Event()
        self.gone = asyncio.Event()
        self.failure: Failure | None = None
        self._following = asyncio.get_running_loop().create_task(self._follow())

    @classmethod
    async def start(cls, order: WorkerOrder) -> WorkerProcess:
        """Start a process. It inherits standard error, and the sockets that the order names.

        Raises: OSError: no more processes can be started.
        """
        own, other = socket.socketpair()
        try:
            with other:
                process = await asyncio.create_subprocess_exec(
                    *(sys.executable, "-P", "-m", "kqueue.supervisor.worker", str(other.fileno())),
                    stdin=asyncio.subprocess.DEVNULL,
                    process_group=0,  # signals of the terminal, as that of Ctrl-C, reach the supervisor alone
                    pass_fds=(other.fileno(), *order.descriptors),
                )
            reader, writer = await asyncio.open_connection(sock=own, limit=LINE_BYTES_MAX)
        except BaseException:
            own.close()
            raise
        writer.write(order.to_line())
        return cls(process, reader, writer)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def exit_status(self) -> int:
        """Once it is gone: its exit status; negative: the signal that ended it."""
        assert self._process.returncode is not None, "it is not gone"
        return self._process.returncode

    @property
    def end_text(self) -> str:
        """Once it is gone: how it ended."""
        if self.exit_status < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-self.exit_status).name}"
        return "stopped" if self.exit_status == 0 else f"ended with exit status {self.exit_status}"

    def tell(self, message: str) -> None:
        """Send a message, unless it has ended."""
        if not self._writer.is_closing():
            self._writer.write(encode(message))

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def said(self, event: asyncio.Event) -> bool:
        """Wait for `serves` or `is_ready`. False: the process has ended before."""
        waiting = [asyncio.ensure_future(either.wait()) for either in (event, self.gone)]
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for future in waiting:
                future.cancel()
        return event.is_set()

    async def _follow(self) -> None:
        try:
            async for line in self._reader:
                message = json.loads(line)
                if message == SERVES:
                    self.serves.set()
                elif message == READY:
                    self.is_ready.set()
                else:
                    self.failure = Failure(*message[FAILED])
        except (OSError, ValueError):  # killed in the middle of a message
            pass
        await self._process.wait()
        self._writer.close()
        self.gone.set()
