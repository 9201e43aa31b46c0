"""A collector of OpenTelemetry that keeps what is pushed to it."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


class Collector(ThreadingHTTPServer):
    """`requests`: path, headers and message of each. `status`: with which it answers."""

    daemon_threads = True

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], Any]] = []
        self.status = 200
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def resources(self) -> list[Any]:
        """All that was pushed."""
        return [one for _, _, message in self.requests for one in message.resource_metrics]

    def points(self, name: str) -> list[tuple[dict[str, str], Any]]:
        """Return attributes and point of each value of a metric."""
        return [
            (attributes(point.attributes), point)
            for resource in self.resources
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in getattr(metric, metric.WhichOneof("data")).data_points
        ]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        collector = self.server
        assert isinstance(collector, Collector)
        body = gzip.decompress(self.rfile.read(int(self.headers["Content-Length"])))
        collector.requests.append((self.path, dict(self.headers), ExportMetricsServiceRequest.FromString(body)))
        self.send_response(collector.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


@contextmanager
def collecting() -> Iterator[Collector]:
    """Serve until the end of the block."""
    with Collector() as collector:
        thread = threading.Thread(target=collector.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield collector
        finally:
            collector.shutdown()
            thread.join()


def attributes(attributes: Any) -> dict[str, str]:
    """Return attributes by their names."""
    return {attribute.key: attribute.value.string_value for attribute in attributes}
