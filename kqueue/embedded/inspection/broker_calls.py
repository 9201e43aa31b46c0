"""Calls from other threads to the broker's thread, and polling until a condition holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kqueue.base.clock import monotonic_s, sleep
from kqueue.base.names import did_you_mean
from kqueue.broker.purgatory import DelayedOperation
from kqueue.broker.replicas.uncommitted_ends import UncommittedEnds
from kqueue.embedded.argument_checks import check_seconds
from kqueue.embedded.event_loops import check_may_block, run_in_thread

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.replicas.partition import Partition

T = TypeVar("T")
POLL_S = 0.005


class RunOnBroker(Protocol):
    """Runs `work(server)` on the broker's thread and returns its result.

    Raises: RuntimeError: the broker is not running.
    """

    def __call__(self, work: Callable[[Server], Coroutine[Any, Any, T]], /) -> T: ...


class NoSuchName(KeyError):
    """No topic or group has this name; the message suggests the nearest one. A KeyError with a
    readable message.
    """

    def __init__(self, noun: str, name: object, known: list[str]) -> None:
        super().__init__(f"there is no {noun} {name!r}{did_you_mean(str(name), (one for one in known if one != name))}")

    def __str__(self) -> str:
        return str(self.args[0])


async def appended_visible(server: Server, partitions: Iterable[Partition]) -> None:
    """Return once consumers can read what was appended to `partitions` before the call: in group
    mode, after its flush. Returns at once where no flush is pending, or none will follow.

    Thread: the broker's own.
    """
    ends = UncommittedEnds(partitions)
    if not ends.all_committed():
        visible = asyncio.get_running_loop().create_future()
        server.broker.scheduler.purgatory.add(
            DelayedOperation(ends.keys, None, lambda expired: ends.all_committed() or None), visible.set_result
        )
        await visible


def poll_until_true(look: Callable[[], str | None], within_s: float, instead: str) -> None:
    """Call `look` until it returns None.

    Raises:
        AssertionError: with the problem that `look` returned last, after `within_s` seconds; 0
            calls it once.
        RuntimeError: this thread runs an event loop; `instead` is the awaitable call.
    """
    __tracebackhide__ = True
    check_seconds("within_s", within_s)
    if within_s > 0:
        check_may_block(instead)
    deadline = monotonic_s() + within_s
    while (problem := look()) is not None:
        left_s = deadline - monotonic_s()
        if left_s <= 0:
            raise AssertionError(_late(problem, within_s))
        sleep(min(POLL_S, left_s))


async def poll_until_true_async(look: Callable[[], str | None], within_s: float) -> None:
    """`poll_until_true` for coroutines: `look` runs in a thread, and so do the pauses, because the
    timers of the caller's loop do not run while a test has frozen the time. Raises AssertionError.
    """
    __tracebackhide__ = True
    check_seconds("within_s", within_s)
    deadline = monotonic_s() + within_s
    problem = await run_in_thread(look)
    while problem is not None:
        left_s = deadline - monotonic_s()
        if left_s <= 0:
            raise AssertionError(_late(problem, within_s))
        pause_s = min(POLL_S, left_s)
        problem = await run_in_thread(_look_later, look, pause_s)


def _look_later(look: Callable[[], str | None], pause_s: float) -> str | None:
    sleep(pause_s)
    return look()


def _late(problem: str, within_s: float) -> str:
    waited = f" (after {within_s:g} s)" if within_s > 0 else ""
    head, *more = problem.split("\n", 1)
    return "\n".join([head + waited, *more])
