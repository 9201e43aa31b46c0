"""The loop of `kqueue collect`: look, read, send, and only then move the position."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from kqueue.cli.collect.file_tailer import FileTailer
from kqueue.cli.collect.line_sender import LineSender
from kqueue.cli.collect.resume_dedup import DeliveredLine
from kqueue.cli.collect.state_file import AgentState, StateFile
from kqueue.cli.collect.tailed_file import Line

BATCH_BYTES_MAX = 4 * 1024 * 1024


def resume(tailer: FileTailer, file: StateFile) -> AgentState | None:
    """Have `tailer` go on from what was kept; returns it, or None if nothing was. Raises
    StateUnusable.
    """
    state = file.load()
    if state is not None:
        tailer.restore(state.positions, state.patterns, file.path.stat().st_mtime_ns)
    return state


class Agent:
    """One run of `kqueue collect`.

    Args: lines_max: how many lines are sent and confirmed before the position is kept. once: end as
    soon as nothing is left to be read. stopped, wait: as of `LineSender`. show: told how many lines
    have been sent. arrived: lines to leave out, since they are in the topic.
    """

    def __init__(
        self,
        tailer: FileTailer,
        sender: LineSender,
        file: StateFile,
        *,
        interval_s: float,
        lines_max: int,
        once: bool,
        stopped: Callable[[], bool],
        wait: Callable[[float], object],
        show: Callable[[int], None] = lambda sent: None,
        arrived: Collection[DeliveredLine] = (),
    ) -> None:
        self.tailer = tailer
        self.sender = sender
        self.file = file
        self.interval_s = interval_s
        self.lines_max = lines_max
        self.once = once
        self._stopped = stopped
        self._wait = wait
        self._show = show
        self._arrived = set(arrived)

    def run(self) -> bool:
        """Until it is stopped, or with `once` until all is read. Returns False if lines were left
        that the broker did not confirm.

        Raises: LineRejected, StateUnusable. What was confirmed has been kept, however it ends.
        """
        self.tailer.scan()
        self.tailer.tell_if_nothing()
        while True:
            self.tailer.scan()
            self._keep()  # the names of new contents must be known before their lines are anywhere
            if not self._catch_up():
                return False
            if self._stopped() or (self.once and not self.tailer.is_behind):
                self._keep(stopped=True)
                return True
            self._wait(self.interval_s)

    def _catch_up(self) -> bool:
        """Send what there is; for no longer than the interval, because a file may be rotated twice
        meanwhile.
        """
        until_s = time.monotonic() + self.interval_s
        while not self._stopped():
            lines = self.tailer.read(self.lines_max, BATCH_BYTES_MAX)
            if not self._send(lines):
                return False
            self.tailer.commit()
            self._keep()
            if not lines or time.monotonic() > until_s:
                break
        return True

    def _send(self, lines: Sequence[Line]) -> bool:
        if self._arrived:
            lines = [
                line for line in lines if DeliveredLine(line.source, line.offset, len(line.value)) not in self._arrived
            ]
        if lines and not self.sender.send(lines):
            return False
        self._show(self.sender.sent)
        return True

    def _keep(self, *, stopped: bool = False) -> None:
        ends = tuple(sorted(self.sender.ends.items()))
        self.file.save(AgentState(self.tailer.patterns, tuple(self.tailer.positions()), ends, stopped))
