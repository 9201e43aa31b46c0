"""How the outside asks the broker's thread, and how it waits for something to become true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kqueue.base.names import did_you_mean
from kqueue.broker.high_watermark import UncommittedEnds
from kqueue.broker.purgatory import DelayedOperation
from kqueue.embedded.event_loops import check_may_block

if TYPE_CHECKING:
    from kqueue.app import Server
    from kqueue.broker.partition import Partition

T = TypeVar("T")
POLL_S = 0.005


class RunOnBroker(Protocol):
    """Runs `work(server)` on the broker's thread and returns what it comes to. Raises RuntimeError:
    the broker is not running.
    """

    def __call__(self, work: Callable[[Server], Coroutine[Any, Any, T]], /) -> T: ...


class NoSuchName(KeyError):
    """There is nothing of this name; the message has the nearest one. A KeyError, whose words can
    be read.
    """

    def __init__(self, noun: str, name: object, known: list[str]) -> None:
        super().__init__(f"there is no {noun} {name!r}{did_you_mean(str(name), known)}")

    def __str__(self) -> str:
        return str(self.args[0])


async def appended_visible(server: Server, partitions: Iterable[Partition]) -> None:
    """Return once consumers can see what was appended to `partitions` before the call: in group
    mode, after its flush.

    Returns at once where nothing waits for a flush, or never will be flushed. Thread: the broker's
    own.
    """
    ends = UncommittedEnds(partitions)
    if not ends.all_committed():
        visible = asyncio.get_running_loop().create_future()
        server.broker.purgatory.add(
            DelayedOperation(ends.keys, None, lambda expired: ends.all_committed() or None), visible.set_result
        )
        await visible


def poll_until_true(look: Callable[[], str | None], within_s: float, instead: str) -> None:
    """Call `look` until it returns None.

    Raises: AssertionError: with what it says instead after `within_s` seconds; 0 looks once.
    RuntimeError: it would wait on a thread that runs an event loop, where `instead` has to be
    written.
    """
    __tracebackhide__ = True
    if within_s > 0:
        check_may_block(instead)
    deadline = time.monotonic() + within_s
    while (problem := look()) is not None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise AssertionError(_late(problem, within_s))
        time.sleep(min(POLL_S, left_s))


async def poll_until_true_async(look: Callable[[], str | None], within_s: float) -> None:
    """`poll_until_true` for coroutines of any event loop: `look` runs in a thread. Raises
    AssertionError.
    """
    __tracebackhide__ = True
    deadline = time.monotonic() + within_s
    while (problem := await asyncio.to_thread(look)) is not None:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise AssertionError(_late(problem, within_s))
        await asyncio.sleep(min(POLL_S, left_s))


def _late(problem: str, within_s: float) -> str:
    waited = f" (after {within_s:g} s)" if within_s > 0 else ""
    head, *more = problem.split("\n", 1)
    return "\n".join([head + waited, *more])
