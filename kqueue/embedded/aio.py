"""`broker.aio`: the calls of an embedded broker, for coroutines.

Each call runs in a thread, so that clients on the caller's event loop are served meanwhile. The
loop is that of asyncio or trio, so it works with pytest-asyncio and anyio.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from operator import attrgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

from kqueue.embedded.clock import BrokerClock
from kqueue.embedded.event_loops import run_in_thread
from kqueue.embedded.inspection.groups import Group
from kqueue.embedded.inspection.mixin import InspectionMixin
from kqueue.embedded.inspection.record_lines import RecordSource
from kqueue.embedded.inspection.records import Record
from kqueue.embedded.inspection.topics import Topic
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

    def __init__(self, owner: Any) -> None:
        """Args: owner: a `EmbeddedNode`, which imports this module."""
        self._owner = owner

    def __repr__(self) -> str:
        return f"<aio of {self._owner!r}>"

    async def create_topic(
        self,
        /,
        name: str,
        partitions: int | None = None,
        *,
        replication_factor: int | None = None,
        replicas: Mapping[int, Sequence[int]] | None = None,
        **configs: object,
    ) -> None:
        """See `EmbeddedNode.create_topic`."""
        await run_in_thread(
            lambda: self._owner.create_topic(
                name, partitions, replication_factor=replication_factor, replicas=replicas, **configs
            )
        )

    async def alter_config(self, /, **settings: object) -> None:
        """See `EmbeddedNode.alter_config`."""
        await run_in_thread(self._owner.alter_config, **settings)

    async def load_records(self, source: RecordSource, topic: str | None = None) -> list[Record]:
        """See `EmbeddedNode.load_records`."""
        loaded: list[Record] = await run_in_thread(self._owner.load_records, source, topic)
        return loaded

    snapshot = awaitable(InspectionMixin.snapshot)
    assert_produced = awaitable(InspectionMixin.assert_produced)
    assert_consumed = awaitable(InspectionMixin.assert_consumed)
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

    async def start(self) -> None:
        """See `Broker.start`."""
        await run_in_thread(self._owner.start)

    async def stop(self) -> None:
        """See `Broker.stop`."""
        await run_in_thread(self._owner.stop)

    async def restart(self) -> None:
        """See `Broker.restart`."""
        await run_in_thread(self._owner.restart)

    async def reset(self) -> None:
        """See `Broker.reset`."""
        await run_in_thread(self._owner.reset)
