"""The overview: the cluster at one look."""

from __future__ import annotations

from collections.abc import Collection

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.admin.cluster_state import partition_counts
from kqueue.console.cluster_counts import broker_rows
from kqueue.console.history.cluster_history import ClusterHistory
from kqueue.console.page import Page
from kqueue.console.problems import Problem, or_problem


def overview(request: Request) -> Response:
    """Show counts of brokers, topics, partitions and groups."""
    page = Page(request)
    problems: list[Problem] = []
    metadata = page.cluster()
    with page.client() as client:
        groups = or_problem(client.groups, problems)
        moving = or_problem(client.cluster.reassignments, problems)
        description = or_problem(client.cluster.describe, [])  # Kafka before 2.8 does not have it
    return page.render(
        "overview.html",
        title="Overview",
        cluster_id=metadata.cluster_id,
        brokers=broker_rows(metadata, description),
        running=len(metadata.brokers),
        topics=len(metadata.topics),
        counts=partition_counts(metadata, moving or {}, {}),
        groups=None if groups is None else len(groups),
        behind=None if groups is None else behind_count(page.history, groups),
        moving=None if moving is None else len(moving),
        problems=problems,
    )


def behind_count(history: ClusterHistory | None, groups: Collection[str]) -> int | None:
    """Return how many of these groups are behind; None: there is no history yet."""
    if history is None or history.latest.time_ms is None:
        return None
    return sum(state.since is not None for name, state in history.latest.groups.items() if name in groups)


ROUTES = [Route("/", overview)]
