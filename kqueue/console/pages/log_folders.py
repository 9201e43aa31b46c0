"""Log folders: the data folders of all brokers, with their volumes and largest replicas."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.admin.log_dirs import log_dirs
from kqueue.console.page import Page
from kqueue.console.problems import problem_of

LARGEST = 20


def log_folders(request: Request) -> Response:
    """Show the folders of each broker."""
    page = Page(request)
    node_ids = sorted(page.cluster().brokers)
    read = page.reading("log folders", lambda client: log_dirs(client, node_ids))
    replicas = [
        (node_id, partition, size)
        for node_id, folders in read.by_broker.items()
        for folder in folders
        for partition, size in folder.sizes.items()
    ]
    return page.render(
        "log_folders.html",
        title="Log folders",
        brokers=sorted(read.by_broker.items()),
        problems=[(node_id, problem_of(error)) for node_id, error in sorted(read.failed.items())],
        largest=sorted(replicas, key=lambda row: (-row[2], row[:2]))[:LARGEST],
    )


ROUTES = [Route("/log-folders", log_folders)]
