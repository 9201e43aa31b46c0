"""Requests of share groups that are put to Kafka and to kqueue, whose answers must be the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from compat_tests.kafka.admin_scenarios import Ask, Scenario, created, topic
from compat_tests.waits import look_until
from kqueue.base.names import uuid_text
from kqueue.wire.messages import share_acknowledge as acknowledge
from kqueue.wire.messages import share_fetch as fetch

MAX_WAIT_MS = 200
GROUP = "unheard"
"""Also its topic."""


def member(number: int) -> str:
    return uuid_text(number.to_bytes(16, "big"))


def fetched(ask: Ask, id: bytes, number: int, epoch: int) -> Any:
    """The answer to a ShareFetch of the topic's only partition."""
    request = fetch.ShareFetchRequest(
        group_id=GROUP,
        member_id=member(number),
        share_session_epoch=epoch,
        max_wait_ms=MAX_WAIT_MS,
        min_bytes=1,
        max_records=10,
        batch_size=10,
        topics=[fetch.FetchTopic(topic_id=id, partitions=[fetch.FetchPartition()])],
    )
    return ask(request, 2)


def fetching_without_a_heartbeat(ask: Ask) -> Iterator[Any]:
    """No member of the group has had a heartbeat, so its share partitions have no state. Until
    Kafka's share coordinator is there, its answers are empty.
    """
    [made] = created(ask, topic(GROUP, 1, 1)).topics
    id = made.topic_id
    numbers = itertools.count(1)

    def asked() -> tuple[int, Any]:
        number = next(numbers)
        return number, fetched(ask, id, number, 0)

    number, answer = look_until(
        asked,
        lambda pair: any(row.error_code == -1 for part in pair[1].responses for row in part.partitions),
        "an answer of the share coordinator",
    )
    yield answer
    yield fetched(ask, id, number, 1)
    records = acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[1])
    partition = acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=[records])
    request = acknowledge.ShareAcknowledgeRequest(
        group_id=GROUP,
        member_id=member(number),
        share_session_epoch=2,
        topics=[acknowledge.AcknowledgeTopic(topic_id=id, partitions=[partition])],
    )
    yield ask(request, 2)


SCENARIOS: Sequence[Scenario] = (fetching_without_a_heartbeat,)
