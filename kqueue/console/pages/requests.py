"""Live requests and connections of kqueue brokers, from their metrics."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from kqueue.console.charts.units import Unit, value_text
from kqueue.console.history.broker_metrics import VALUES
from kqueue.console.page import Page
from kqueue.console.pages.charts import UNITS

SHOWN = ("requests", "errors", "bytes_in", "bytes_out", "loop_delay_p99", "waiting_requests", "memory", "cpu")
SHORT_TITLES = {
    "requests": "Requests/s",
    "errors": "Errors/s",
    "bytes_in": "Bytes in",
    "bytes_out": "Bytes out",
    "loop_delay_p99": "Loop delay, p99",
    "waiting_requests": "Waiting requests",
    "memory": "Memory",
    "cpu": "Processors",
}


def requests(request: Request) -> Response:
    """Show the requests by API of the last minute, and the connections by listener."""
    page = Page(request)
    history = page.history
    with page.client() as client:
        client.metadata([])  # the session's credentials are those of a user of the cluster
    loads = history.loads if history is not None else []
    return page.render(
        "requests.html",
        title="Requests",
        loads=loads,
        figures={
            load.url: [
                (SHORT_TITLES.get(name, VALUES[name]), value_text(load.load.values[name], UNITS[name]))
                for name in SHOWN
            ]
            for load in loads
            if load.load is not None
        },
        duration=lambda value: value_text(value, Unit.SECONDS),
        rate=lambda value: value_text(value, Unit.REQUESTS_PER_S),
        history=history,
    )


ROUTES: Sequence[Route] = [Route("/requests", requests)]
