"""The overview: the cluster at one look."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client.errors import BrokerRefused, IncompatibleBroker
from kqueue.console.cluster_counts import cluster_counts
from kqueue.console.page import Page
from kqueue.console.problems import Problem, problem_of

T = TypeVar("T")


def overview(request: Request) -> Response:
    """Show counts of brokers, topics, partitions and groups."""
    page = Page(request)
    problems: list[Problem] = []
    with page.client() as client:
        metadata = client.metadata()
        groups = _or_problem(lambda: len(client.groups()), problems)
        reassignments = _or_problem(lambda: len(client.cluster.reassignments()), problems)
        description = _or_problem(client.cluster.describe, [])  # Kafka before 2.8 does not have it
    fenced = description.fenced if description is not None else frozenset()
    return page.render(
        "overview.html",
        title="Overview",
        overview=cluster_counts(metadata, fenced),
        groups=groups,
        reassignments=reassignments,
        problems=problems,
    )


def _or_problem(call: Callable[[], T], problems: list[Problem]) -> T | None:
    """Return what a user may not see, or a broker does not have, as None and a problem."""
    try:
        return call()
    except (BrokerRefused, IncompatibleBroker) as error:
        problems.append(problem_of(error))
        return None


ROUTES = [Route("/", overview)]
