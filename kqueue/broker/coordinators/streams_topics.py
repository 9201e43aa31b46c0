"""Creates the internal topics of streams groups (KIP-1071)."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from kqueue.base import events
from kqueue.base.errors import KqueueError
from kqueue.base.promise import Promise
from kqueue.base.slice_queue import SliceQueue
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.topics.topics import NO_COUNT, NewTopic, Topic, Topics
from kqueue.groups.streams.topology import InternalTopic

logger = logging.getLogger("kqueue.groups")
FAILURES_MAX = 1000
"""Topics whose last failure is kept."""


class StreamsTopics:
    """One creation of a group's topics is under way at a time. On the owner thread."""

    def __init__(self, topics: Topics, slices: SliceQueue) -> None:
        self._topics = topics
        self._slices = slices
        self._failures: dict[str, str] = {}
        self._under_way: dict[str, tuple[str, Promise[Topic]]] = {}
        """Topic -> group id, and what becomes of it."""

    def create(self, group_id: str, missing: Iterable[InternalTopic]) -> None:
        """Create the topics of a group in slices. What fails is logged; the next call tries it."""
        self._note_results()
        self._slices.add_once(f"streams topics {group_id}", self._create_all(group_id, list(missing)))

    def failures(self, missing: Iterable[InternalTopic]) -> list[str]:
        """Return why these topics could not be created, as far as that is known."""
        self._note_results()
        return [text for topic in missing if (text := self._failures.get(topic.name)) is not None]

    def _create_all(self, group_id: str, missing: list[InternalTopic]) -> SlicedWork[None]:
        for topic in missing:
            if self._topics.find(topic.name) is None and topic.name not in self._under_way:
                self._create(group_id, topic)
            yield None

    def _create(self, group_id: str, topic: InternalTopic) -> None:
        new = NewTopic(
            topic.name,
            topic.partition_count,
            topic.replication_factor or NO_COUNT,
            configs=dict(topic.configs),
        )
        try:
            self._under_way[topic.name] = group_id, self._topics.create(new)
        except KqueueError as error:
            self._note(group_id, topic.name, error)

    def _note_results(self) -> None:
        for name, (group_id, created) in list(self._under_way.items()):
            if not created.done:
                continue
            del self._under_way[name]
            if created.error is None:
                self._failures.pop(name, None)
            else:
                self._note(group_id, name, created.error)

    def _note(self, group_id: str, name: str, error: BaseException) -> None:
        text = f"{name}: {error}"
        if self._failures.get(name) != text:
            events.STREAMS_TOPIC_NOT_CREATED.log(
                logger, "streams group %r: its internal topic can't be created: %s", group=group_id, error=text
            )
        while len(self._failures) >= FAILURES_MAX:
            del self._failures[next(iter(self._failures))]
        self._failures[name] = text
