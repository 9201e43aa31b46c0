"""Brokers: the list, and one broker with what it leads and holds."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.client.errors import ClientError
from kqueue.console.cluster_counts import broker_rows
from kqueue.console.page import Crumb, Page
from kqueue.console.problems import UnknownResource, or_problem, problem_of


def brokers(request: Request) -> Response:
    """Show the brokers, those that are fenced or gone too."""
    page = Page(request)
    metadata = page.cluster()
    with page.client() as client:
        description = or_problem(client.cluster.describe, [])
    return page.render(
        "brokers.html",
        title="Brokers",
        rows=broker_rows(metadata, description),
        cluster_id=metadata.cluster_id,
        controller=metadata.controller,
    )


def broker(request: Request) -> Response:
    """Show one broker, with its data folders."""
    page = Page(request)
    node_id = request.path_params["id"]
    metadata = page.cluster()
    folders, problem = [], None
    with page.client() as client:
        description = or_problem(client.cluster.describe, [])
        row = next((row for row in broker_rows(metadata, description) if row.id == node_id), None)
        if row is None:
            raise UnknownResource(f"There is no broker {node_id}.")
        if node_id in metadata.brokers:
            try:
                folders = client.cluster.log_dirs(node_id)
            except ClientError as error:
                problem = problem_of(error)
    return page.render(
        "broker.html",
        title=f"Broker {node_id}",
        crumbs=(Crumb("Brokers", "/brokers"),),
        row=row,
        folders=folders,
        problem=problem,
    )


ROUTES = [Route("/brokers", brokers), Route("/brokers/{id:int}", broker)]
