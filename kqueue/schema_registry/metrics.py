"""Metrics of a registry, in Prometheus' format at `/metrics`; needs prometheus-client."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import NamedTuple

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, SummaryMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.metrics_core import Metric
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from kqueue.schema_registry.catalog import Catalog
from kqueue.schema_registry.errors import METHOD_NOT_ALLOWED, RegistryError
from kqueue.schema_registry.request_meter import RequestMeter
from kqueue.schema_registry.rest.answers import error_answer
from kqueue.schema_registry.rest.contract import Authenticator, Credentials

PATH = "/metrics"
REQUESTS = "kqueue_registry_requests"
SECONDS = "kqueue_registry_request_seconds"
SUBJECTS = "kqueue_registry_subjects"
VERSIONS = "kqueue_registry_schema_versions"
LEADER = "kqueue_registry_is_leader"
CONNECTED = "kqueue_registry_is_connected"
OFFSET = "kqueue_registry_applied_offset"
MEANINGS = {
    REQUESTS: "Requests that were answered, by method, path and status.",
    SECONDS: "Seconds from a request's last byte to its answer, by method and path.",
    SUBJECTS: "Subjects that have a version which is not deleted.",
    VERSIONS: "Versions of subjects that are not deleted.",
    LEADER: "1: this registry writes; 0: another one does, or none.",
    CONNECTED: "1: the topic of the schemas could be read the last time; 0: no broker answers.",
    OFFSET: "Offset of the last record of the topic that was applied; -1: none.",
}
"""The names, as the documentation lists them."""


def request_families(meter: RequestMeter) -> Iterator[Metric]:
    """Yield what is counted of requests."""
    requests = CounterMetricFamily(REQUESTS, MEANINGS[REQUESTS], labels=("method", "path", "status"))
    durations = SummaryMetricFamily(SECONDS, MEANINGS[SECONDS], labels=("method", "path"))
    for method, path, counts, seconds in meter.read():
        for status, count in counts.items():
            requests.add_metric((method, path, str(status)), count)
        durations.add_metric((method, path), count_value=sum(counts.values()), sum_value=seconds)
    yield from (requests, durations)


class RegistryGauges(NamedTuple):
    """What is read when the metrics are."""

    catalog: Catalog
    is_leader: Callable[[], bool]
    is_connected: Callable[[], bool]
    applied_offset: Callable[[], int]

    def families(self) -> Iterator[Metric]:
        """Yield the values of now."""
        subjects = self.catalog.subjects()
        versions = sum(len(self.catalog.versions(subject)) for subject in subjects)
        for name, value in (
            (SUBJECTS, len(subjects)),
            (VERSIONS, versions),
            (LEADER, self.is_leader()),
            (CONNECTED, self.is_connected()),
            (OFFSET, self.applied_offset()),
        ):
            yield GaugeMetricFamily(name, MEANINGS[name], float(value))


class WithMetrics:
    """An application with `/metrics` beside its own paths, for the same users."""

    def __init__(
        self, app: ASGIApp, meter: RequestMeter, gauges: RegistryGauges, authenticator: Authenticator | None
    ) -> None:
        self._app = app
        self._meter = meter
        self._gauges = gauges
        self._authenticator = authenticator
        self._collectors = CollectorRegistry(auto_describe=False)
        self._collectors.register(self)

    def describe(self) -> list[Metric]:
        """Return nothing: registering a collector reads nothing."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Return all metrics."""
        yield from request_families(self._meter)
        yield from self._gauges.families()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["path"] != PATH:
            await self._app(scope, receive, send)
            return
        response = await run_in_threadpool(self._response, Request(scope))
        await response(scope, receive, send)

    def _response(self, request: Request) -> Response:
        headers = {}
        try:
            if request.method not in ("GET", "HEAD"):
                raise RegistryError(METHOD_NOT_ALLOWED, method=request.method[:20], allowed="GET, HEAD")
            if self._authenticator is not None:
                headers["www-authenticate"] = self._authenticator.challenge
                client = None if request.client is None else (request.client.host, request.client.port)
                self._authenticator.authenticate(
                    Credentials(request.headers.get("authorization"), client, request.scope)
                )
        except RegistryError as error:
            return error_answer(error, headers if error.status == HTTPStatus.UNAUTHORIZED else None)
        return Response(generate_latest(self._collectors), media_type=CONTENT_TYPE_LATEST)
