"""Steps of modern groups, each made in memory, then appended, then answered.

A group has one append under way. Steps that come meanwhile wait, and run together once it is
committed: their records are the next append. So nothing is built on a change that may still fail,
and a thousand members that join at once cost a few appends.

Crash: an append that was not committed is as if its steps had not run; no client was answered.
Failed append: the changes are taken back, and every step in it fails.
Partition left: the append fails, and so do the steps that wait; none of them runs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from kqueue.base.coordinators import coordinator_error
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.groups.log.changes import Changes
from kqueue.groups.log.group_log import Wake
from kqueue.groups.log.group_writer import GroupWriter

T = TypeVar("T")
Step = Callable[[Changes], T]
"""Changes a group in memory and returns the answer. Raises RequestRefused: its changes are taken
back.
"""
RECORDS_PER_APPEND = 1000
BYTES_PER_APPEND = 256 * 1024
STEPS_PER_APPEND = 200


class _Queued(NamedTuple):
    step: Step[Any]
    promise: Promise[Any]


class WriteQueue:
    """The steps of all modern groups of a coordinator. Belongs to the owner thread."""

    def __init__(self, writer: GroupWriter, wake: Wake) -> None:
        self._writer = writer
        self._wake = wake
        self._waiting: dict[str, deque[_Queued]] = {}  # group id -> steps, while an append is under way

    def submit(self, group_id: str, step: Step[T]) -> Promise[T]:
        """Run `step` now, or after the append that is under way for the group.

        Returns: a promise of the step's answer, settled when its changes are committed. It fails
            with what the step raises, or with what `coordinator_error` makes of a failed append.
        Raises: NotCoordinator, CoordinatorLoadInProgress: the group's records were not read.
        """
        self._writer.check_readable(group_id)
        promise: Promise[T] = Promise()
        waiting = self._waiting.get(group_id)
        if waiting is None:
            self._run(group_id, deque([_Queued(step, promise)]))
        else:
            waiting.append(_Queued(step, promise))
        return promise

    def submit_late(self, group_id: str, step: Step[None]) -> None:
        """Run a step that nobody waits for, such as a timer's: `submit`, unless the group is not
        served here any more.
        """
        if self.is_served(group_id):
            self.submit(group_id, step)

    def is_served(self, group_id: str) -> bool:
        """Whether the partition that keeps the group is active."""
        return self._writer.is_active(self._writer.of(group_id))

    def is_idle(self, group_id: str) -> bool:
        """Return whether no append is under way for the group."""
        return group_id not in self._waiting

    def _run(self, group_id: str, steps: deque[_Queued]) -> None:
        """Run steps until there is an append, or none is left."""
        # Set while steps run, too: one that submits another for its group must not run it within
        # itself.
        self._waiting[group_id] = steps
        if not self.is_served(group_id):
            self._refuse(group_id, steps)
        while steps:
            changes = Changes()
            answers: list[tuple[Promise[Any], Any]] = []
            while steps and len(answers) < STEPS_PER_APPEND and len(changes) < RECORDS_PER_APPEND:
                self._run_step(steps.popleft(), changes, answers)
            if changes.records():
                self._append(group_id, changes, answers, 0)
                return
            # No record: nothing has to be committed. The steps before it in the queue are, as this
            # runs after their append.
            self._settle(changes, answers)
        del self._waiting[group_id]

    def _refuse(self, group_id: str, steps: deque[_Queued]) -> None:
        """Fail steps that have waited while the partition left."""
        refusal = self._writer.refusal(self._writer.of(group_id))
        while steps and refusal is not None:
            promise = steps.popleft().promise
            promise.fail(refusal)
            self._wake(promise)

    def _run_step(self, queued: _Queued, changes: Changes, answers: list[tuple[Promise[Any], Any]]) -> None:
        start, called = len(changes), len(changes.on_committed)
        try:
            answer = queued.step(changes)
        except KqueueError as error:
            # Only this step's changes. Those before it in the append stay, and are answered with
            # it.
            changes.roll_back(start)
            del changes.on_committed[called:]
            queued.promise.fail(error)
            self._wake(queued.promise)
        else:
            answers.append((queued.promise, answer))

    def _append(self, group_id: str, changes: Changes, answers: list[tuple[Promise[Any], Any]], start: int) -> None:
        """Append the changes from `start` on, in batches of bounded size, one after the other."""
        end = _batch_end(changes, start)

        def done(error: KqueueError | None) -> None:
            # The batches before this one are committed, and their changes stay.
            if error is not None:
                changes.roll_back(start)
                for promise, _ in answers:
                    promise.fail(coordinator_error(error))
                    self._wake(promise)
            elif end < len(changes):
                self._append(group_id, changes, answers, end)
                return
            else:
                self._settle(changes, answers)
            self._run(group_id, self._waiting[group_id])

        self._writer.append(group_id, changes.records(start, end), done)

    def _settle(self, changes: Changes, answers: list[tuple[Promise[Any], Any]]) -> None:
        for call in changes.on_committed:
            call()
        for promise, answer in answers:
            promise.resolve(answer)
            self._wake(promise)


def _batch_end(changes: Changes, start: int) -> int:
    """Return the end of the next batch: it holds a record at least."""
    size, count, end = 0, 0, start
    while end < len(changes):
        records = changes.records(end, end + 1)
        size += sum(len(key) + len(value or b"") for key, value in records)
        if count and (size > BYTES_PER_APPEND or count >= RECORDS_PER_APPEND):
            break
        count += len(records)
        end += 1
    return end
