"""The loop of `kqueue collect`: scan, read, send, and only then advance the position."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from kqueue.base.clock import monotonic_s
from kqueue.collect.file_tailer import FileTailer
from kqueue.collect.line_sender import LineSender
from kqueue.collect.resume_dedup import DeliveredLine
from kqueue.collect.state_file import AgentState, StateFile
from kqueue.collect.tailed_file import Line

BATCH_BYTES_MAX = 4 * 1024 * 1024


class AgentOptions(NamedTuple):
    """The options of an agent.

    `interval_s`: pause between scans. `lines_max`: lines that are sent and confirmed before the
    position is saved. `once`: end as soon as nothing is left to read.
    """

    interval_s: float
    lines_max: int
    once: bool = False


def resume(tailer: FileTailer, file: StateFile) -> AgentState | None:
    """Restore `tailer` from the saved state. Returns: that state, None if there is none.

    Raises: StateUnusable.
    """
    state = file.load()
    if state is not None:
        tailer.restore(state.positions, state.patterns, file.path.stat().st_mtime_ns)
    return state


class CollectAgent:
    """One run of `kqueue collect`.

    Args:
        stop: once it is set, the run ends after the current lines are confirmed.
        show: receives the number of lines sent.
        delivered: lines to leave out because the topic has them already.
    """

    def __init__(
        self,
        tailer: FileTailer,
        sender: LineSender,
        file: StateFile,
        options: AgentOptions,
        *,
        stop: threading.Event,
        show: Callable[[int], None] = lambda sent: None,
        delivered: Collection[DeliveredLine] = (),
    ) -> None:
        self.tailer = tailer
        self.sender = sender
        self.file = file
        self.options = options
        self._stop = stop
        self._show = show
        self._delivered = set(delivered)

    def run(self) -> bool:
        """Run until the agent is stopped, or with `once` until everything is read.

        Returns: False if lines remain that the broker did not confirm.
        Raises: LineRejected, StateUnusable.
        Durability: the positions of confirmed lines are saved on every way out.
        """
        self.tailer.scan()
        self.tailer.report_unmatched_patterns()
        while True:
            self.tailer.scan()
            self._save()  # the ids of new contents must be on disk before their lines are in the topic
            if not self._catch_up():
                return False
            if self._stop.is_set() or (self.options.once and not self.tailer.is_behind):
                self._save(stopped=True)
                return True
            self._stop.wait(self.options.interval_s)

    def _catch_up(self) -> bool:
        """Send what is unread, for at most one interval: a file may be rotated twice meanwhile."""
        deadline_s = monotonic_s() + self.options.interval_s
        while not self._stop.is_set():
            lines = self.tailer.read(self.options.lines_max, BATCH_BYTES_MAX)
            if not self._send(lines):
                return False
            self.tailer.commit()
            self._save()
            if not lines or monotonic_s() > deadline_s:
                break
        return True

    def _send(self, lines: Sequence[Line]) -> bool:
        if self._delivered:
            lines = [
                line
                for line in lines
                if DeliveredLine(line.source, line.offset, len(line.value)) not in self._delivered
            ]
        if lines and not self.sender.send(lines):
            return False
        self._show(self.sender.sent)
        return True

    def _save(self, *, stopped: bool = False) -> None:
        ends = tuple(sorted(self.sender.ends.items()))
        self.file.save(AgentState(self.tailer.patterns, tuple(self.tailer.positions()), ends, stopped))
