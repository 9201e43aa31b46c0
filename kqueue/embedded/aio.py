"""`broker.aio`: the calls of an embedded broker, for coroutines.

Each call runs in a thread, so that clients on the caller's event loop are served meanwhile. The
loop is that of asyncio or trio, so it works with pytest-asyncio and anyio.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from kqueue.embedded.broker import Broker
from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.event_loops import run_in_thread
from kqueue.embedded.inspection.groups import Group
from kqueue.embedded.inspection.topics import Topic
from kqueue.embedded.node import Node
from kqueue.embedded.request_log import RequestLog

P = ParamSpec("P")
T = TypeVar("T")


def awaitable(
    method: Callable[Concatenate[Any, P], T], attribute: str | None = None
) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    """Return a method of the owner, or of its `attribute`, as a coroutine function."""

    @functools.wraps(method)
    async def call(self: Any, /, *args: P.args, **keywords: P.kwargs) -> T:
        target = self._owner if attribute is None else attrgetter(attribute)(self._owner)
        result: T = await run_in_thread(getattr(target, method.__name__), *args, **keywords)
        return result

    return call


def of_topic(method: Callable[Concatenate[Topic, P], T]) -> Callable[Concatenate[Any, str, P], Coroutine[Any, Any, T]]:
    """Return a method of topics as a coroutine function that takes the topic's name first."""

    async def call(self: Any, topic: str, /, *args: P.args, **keywords: P.kwargs) -> T:
        return await run_in_thread(lambda: method(self._owner.topics[topic], *args, **keywords))

    functools.update_wrapper(call, method)
    own, *others = inspect.signature(method).parameters.values()
    first = [
        own.replace(kind=inspect.Parameter.POSITIONAL_ONLY),
        inspect.Parameter("topic", inspect.Parameter.POSITIONAL_ONLY, annotation="str"),
    ]
    call.__signature__ = inspect.signature(method).replace(parameters=[*first, *others])  # type: ignore[attr-defined]
    return call


class AsyncNode:
    """The calls of a broker for coroutines: ``await broker.aio.create_topic("orders")``.

    Arguments, results and errors are those of the calls of the same name of `Broker`, or of `Topic`
    with the topic's name first. A call that is cancelled goes on in its thread.
    """

    def __init__(self, owner: Node) -> None:
        self._owner = owner

    def __repr__(self) -> str:
        return f"<aio of {self._owner!r}>"

    create_topic = awaitable(Node.create_topic)
    alter_config = awaitable(Node.alter_config)
    load_records = awaitable(Node.load_records)
    snapshot = awaitable(Node.snapshot)
    assert_produced = awaitable(Node.assert_produced)
    assert_consumed = awaitable(Node.assert_consumed)
    records = of_topic(Topic.records)
    produce = of_topic(Topic.produce)
    produce_all = of_topic(Topic.produce_all)
    delete_topic = of_topic(Topic.delete)
    wait_requests = awaitable(RequestLog.wait_for, "requests")
    advance = awaitable(BrokerClock.advance, "clock")

    async def topics(self) -> list[str]:
        """Return the names of the topics, as ``list(broker.topics)``."""
        return await run_in_thread(lambda: list(self._owner.topics))

    async def groups(self) -> dict[str, Group]:
        """Return all groups by name, as ``dict(broker.groups)``."""
        return await run_in_thread(lambda: dict(self._owner.groups))


class AsyncBroker(AsyncNode):
    """`AsyncNode` with the calls that `kqueue.Broker` alone has."""

    start = awaitable(Broker.start)
    stop = awaitable(Broker.stop)
    restart = awaitable(Broker.restart)
    reset = awaitable(Broker.reset)
