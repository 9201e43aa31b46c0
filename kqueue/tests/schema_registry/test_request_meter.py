from __future__ import annotations

from kqueue.schema_registry.request_meter import RequestMeter


def test_answers_are_counted_by_endpoint_and_status() -> None:
    meter = RequestMeter()
    meter.count("GET", "/subjects", 200, 0.5)
    meter.count("GET", "/subjects", 200, 0.25)
    meter.count("GET", "/subjects", 401, 0.25)
    meter.count("PUT", "/config", 200, 1.0)
    assert meter.read() == [
        ("GET", "/subjects", {200: 2, 401: 1}, 1.0),
        ("PUT", "/config", {200: 1}, 1.0),
    ]
