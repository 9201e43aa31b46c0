"""A folder with a log that is rotated, and a tailer on it, without broker and real time."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

from kqueue.collect.file_tailer import LINGER_S, FileTailer
from kqueue.collect.state_file import AgentState, StateFile
from kqueue.collect.tailed_file import Line

LINE_BYTES_MAX = 64
PARTIAL_S = 10.0


class UnsyncedState(StateFile):
    """A state file without the sync: power cuts are not tested here."""

    def _replace(self, text: bytes) -> None:
        self.path.write_bytes(text)


class TailerHarness:
    """An agent without broker: `look` returns the lines it would send, and saves the position."""

    def __init__(self, folder: Path, *patterns: str, from_end: bool = False) -> None:
        self.folder = folder
        self.patterns = [str(folder / pattern) for pattern in patterns]
        self.from_end = from_end
        self.state = UnsyncedState(folder / "state.json", "logs")
        self.now_s = 1000.0
        self.told: list[str] = []
        self._sources = itertools.count(1)
        self.tailer: FileTailer
        self.start()

    def start(self) -> None:
        self.tailer = FileTailer(
            self.patterns,
            line_bytes_max=LINE_BYTES_MAX,
            partial_s=PARTIAL_S,
            now_s=lambda: self.now_s,
            new_source=lambda: f"s{next(self._sources)}",
            tell=self.told.append,
            from_end=self.from_end,
            ignored=self.state.names(),
        )
        state = self.state.load()
        if state is not None:
            self.tailer.restore(state.positions, state.patterns, self.state.path.stat().st_mtime_ns)

    def kill(self) -> None:
        """End without saving the state."""
        self.tailer.close()

    def restart(self) -> None:
        self.kill()
        self.start()

    def keep(self) -> None:
        self.state.save(AgentState(self.tailer.patterns, tuple(self.tailer.positions())))

    def scan(self) -> None:
        self.tailer.scan()
        self.keep()

    def read(self, lines_max: int = 1000) -> list[Line]:
        """Scan and read, but confirm nothing."""
        self.scan()
        return self.tailer.read(lines_max, 1_000_000)

    def look(self, lines_max: int = 1000) -> list[Line]:
        lines = self.read(lines_max)
        self.tailer.commit()
        self.keep()
        return lines

    def values(self) -> list[bytes]:
        """Return the values of all lines that can be read now."""
        sent: list[bytes] = []
        while lines := self.look():
            sent += [line.value for line in lines]
        return sent

    def wait(self, seconds: float = LINGER_S) -> None:
        self.now_s += seconds


def write(path: Path, text: bytes) -> None:
    with path.open("ab") as file:
        file.write(text)


def shift(path: Path) -> Path:
    """Rename ``app.log.1`` to ``app.log.2`` and so on; return ``app.log.1``, which is then free."""
    there = sorted((int(other.suffix[1:]) for other in path.parent.glob(f"{path.name}.*")), reverse=True)
    for number in there:
        path.with_name(f"{path.name}.{number}").rename(path.with_name(f"{path.name}.{number + 1}"))
    return path.with_name(f"{path.name}.1")


def rotate(path: Path) -> None:
    """Rotate as logrotate does with `create`."""
    path.rename(shift(path))
    path.touch()


def copy_and_truncate(path: Path) -> None:
    """Rotate as logrotate does with `copytruncate`.

    The copy has the modification time of the log. A short copy without it is sent again after a
    restart, and whether it has the same time by chance depends on the machine.
    """
    shutil.copy2(path, shift(path))
    os.truncate(path, 0)
