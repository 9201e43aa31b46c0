"""Topics that a server creates at its start: `kqueue serve --topic`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping

from kqueue.app import Server
from kqueue.base import events
from kqueue.base.errors import TopicAlreadyExists
from kqueue.broker.topics.topics import NO_COUNT, NewTopic

logger = logging.getLogger("kqueue.server")


async def create_topics(server: Server, topics: Mapping[str, int | None]) -> None:
    """Create the missing topics.

    Args: topics: partitions by name; None: num.partitions.
    Raises KqueueError: a topic cannot be created.
    """
    if topics and not server.broker.metadata.cluster.is_alone:
        await server.ready()  # until then it is fenced, and may be the only broker
    for name, count in topics.items():
        try:
            await server.result(server.broker.topics.create(NewTopic(name, NO_COUNT if count is None else count)))
        except TopicAlreadyExists:
            continue
        events.TOPIC_CREATED.log(logger, "created topic %s", topic=name)


async def all_serve(server: Server, nodes: Collection[int]) -> None:
    """Wait until this broker, which is in a cluster, knows that all of them may lead."""
    seen = asyncio.Event()

    def look(_: int) -> None:
        if set(nodes) <= {broker.id for broker in server.broker.metadata.cluster.brokers()}:
            seen.set()

    server.broker.metadata.cluster.observe(look)
    look(0)
    await seen.wait()
