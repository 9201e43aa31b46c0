"""Under any changes, each whole line is returned once, in order, and none is invented."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kqueue.tests.collect.tailer_harness import LINE_BYTES_MAX, TailerHarness, copy_and_truncate, rotate, write
from kqueue.tests.thorough import examples


class FollowerMachine(RuleBasedStateMachine):
    """The model is the list of ended lines in writing order.

    After a kill, unconfirmed lines are returned again with the same source and offset.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="kqueue-tailer-"))
        self.log = self.folder / "app.log"
        self.number = 0
        self.ended: list[bytes] = []
        self.begun = b""
        self.came: dict[tuple[str, int], bytes] = {}

    @initialize(pattern=st.sampled_from(["app.log", "app.log*", "*.log"]))
    def begin(self, pattern: str) -> None:
        self.harness = TailerHarness(self.folder, pattern)
        self.in_files = pattern == "app.log*"

    def teardown(self) -> None:
        if hasattr(self, "harness"):
            self.read_all()
            assert self.arranged(self.came.values()) == self.arranged(self.ended)
            self.harness.kill()
        shutil.rmtree(self.folder)

    def arranged(self, lines: Iterable[bytes]) -> list[bytes]:
        """If rotated files are followed too, only the order within each of them is defined."""
        return sorted(lines) if self.in_files else list(lines)

    def take(self, lines: list) -> None:
        for line in lines:
            assert line.part is None
            place = line.source, line.offset
            assert self.came.setdefault(place, line.value) == line.value

    def read_all(self) -> None:
        while lines := self.harness.look():
            self.take(lines)

    # --- the writer

    @rule(sizes=st.lists(st.integers(0, LINE_BYTES_MAX - 12), min_size=1, max_size=12), rest=st.booleans())
    def append(self, sizes: list[int], rest: bool) -> None:
        text = b""
        for size in sizes:
            self.number += 1
            line = b"%06d" % self.number + b"x" * size
            text += (line[len(self.begun) :] if line.startswith(self.begun) and self.begun else line) + b"\n"
            self.ended.append(self.begun + line if self.begun and not line.startswith(self.begun) else line)
            self.begun = b""
        if rest:
            self.number += 1
            self.begun = b"%06d" % self.number
            text += self.begun
        write(self.log, text)

    def end_line(self) -> None:
        if self.begun:
            write(self.log, b"\n")
            self.ended.append(self.begun)
            self.begun = b""

    @precondition(lambda self: self.log.exists())
    @rule(copy=st.booleans(), look=st.booleans())
    def rotate(self, copy: bool, look: bool) -> None:
        self.harness.scan()
        self.end_line()
        if copy:
            self.begin_reading()
        (copy_and_truncate if copy else rotate)(self.log)
        if look:
            self.harness.scan()

    @precondition(lambda self: self.log.exists())
    @rule(remove=st.booleans())
    def empty(self, remove: bool) -> None:
        """The file is read first: unread lines would be lost."""
        self.end_line()
        self.read_all()
        if remove:
            self.log.unlink()
        else:
            os.truncate(self.log, 0)

    def begin_reading(self) -> None:
        """After a restart, a copy of a file of which nothing was read cannot be recognised."""
        self.harness.scan()
        while any(not source.confirmed.fingerprint.offset for source in self.harness.tailer.files if source.size):
            self.take(self.harness.look(1))

    # --- the reader

    @rule(lines_max=st.integers(1, 20))
    def look(self, lines_max: int) -> None:
        self.take(self.harness.look(lines_max))

    @rule(seconds=st.integers(1, 100))
    def wait(self, seconds: int) -> None:
        if not self.begun:  # else it would come as it is
            self.harness.wait(seconds)

    @rule()
    def restart(self) -> None:
        self.harness.restart()

    @rule(lines_max=st.integers(1, 20))
    def kill(self, lines_max: int) -> None:
        self.take(self.harness.read(lines_max))
        self.harness.restart()

    @invariant()
    def nothing_is_invented(self) -> None:
        came = list(self.came.values())
        assert set(came) <= set(self.ended)
        assert self.in_files or came == self.ended[: len(came)]


TestFollower = FollowerMachine.TestCase
TestFollower.settings = settings(max_examples=examples(100), stateful_step_count=20, deadline=None)
