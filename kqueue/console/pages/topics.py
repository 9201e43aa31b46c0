"""The list of topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client import EARLIEST, LATEST, Client, ClusterMetadata, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.client.metadata import NO_LEADER
from kqueue.console.cluster_counts import TopicCounts, topic_counts
from kqueue.console.listing import listing
from kqueue.console.page import Page

STATES = (("", "any"), ("leaderless", "without a leader"), ("under-replicated", "under-replicated"))
PARTITIONS_MAX = 2_000
"""Partitions of one page whose offsets are asked for; with more the column is left out."""


def topics(request: Request) -> Response:
    """Show the topics, with the state of their partitions, and how many records they span."""
    page = Page(request)
    state = page.query.get("state", "")
    internal = "internal" in page.query
    with page.client() as client:
        metadata = client.metadata()
        rows = sorted(_selected(metadata, state, internal), key=lambda row: row.name)
        shown = listing(rows, page.query, lambda row: row.name, keep=("state", "internal"))
        figures = _records(client, metadata, shown.rows)
    return page.render(
        "topics.html", title="Topics", listing=shown, figures=figures, states=STATES, state=state, internal=internal
    )


def _selected(metadata: ClusterMetadata, state: str, internal: bool) -> Iterable[TopicCounts]:
    for topic in metadata.topics.values():
        if topic.is_internal and not internal:
            continue
        row = topic_counts(topic)
        if (state == "leaderless" and not row.leaderless) or (state == "under-replicated" and not row.under_replicated):
            continue
        yield row


def _records(client: Client, metadata: ClusterMetadata, rows: Iterable[TopicCounts]) -> Mapping[str, int] | None:
    """Return the offsets that each topic spans; None: too many partitions, or a leader fails.

    Without partitions that have no leader, which would hold the page up until its timeout.
    """
    partitions = [
        TopicPartition(row.name, index)
        for row in rows
        for index, partition in metadata.topics[row.name].partitions.items()
        if partition.leader != NO_LEADER
    ]
    if len(partitions) > PARTITIONS_MAX:
        return None
    try:
        starts = client.offsets(dict.fromkeys(partitions, EARLIEST))
        ends = client.offsets(dict.fromkeys(partitions, LATEST))
    except ClientError:
        return None
    spans: dict[str, int] = {}
    for partition, end in ends.items():
        spans[partition.topic] = spans.get(partition.topic, 0) + (end.offset or 0) - (starts[partition].offset or 0)
    return spans


ROUTES = [Route("/topics", topics)]
