from __future__ import annotations

from starlette.testclient import TestClient

from kqueue.schema_registry.metrics import MEANINGS, RegistryGauges, WithMetrics
from kqueue.schema_registry.registry import Registry
from kqueue.schema_registry.request_meter import RequestMeter
from kqueue.schema_registry.rest.app import registry_app
from kqueue.schema_registry.schema_log import InMemorySchemaLog
from kqueue.tests.schema_registry.http_calls import INT


def client() -> TestClient:
    log, meter = InMemorySchemaLog(), RequestMeter()
    registry = Registry(log)
    log.follow(registry.apply)
    gauges = RegistryGauges(registry.catalog, lambda: True, lambda: False, lambda: registry.applied_offset)
    return TestClient(WithMetrics(registry_app(registry, observe=meter.count), meter, gauges, None))


def test_requests_and_the_state_are_metrics() -> None:
    http = client()
    for _ in range(2):
        http.post("/subjects/a%2Fb/versions", json=INT)
    http.get("/schemas/ids/7")
    lines = http.get("/metrics").text.splitlines()
    path = 'method="POST",path="/subjects/{subject}/versions"'
    assert f'kqueue_registry_requests_total{{{path},status="200"}} 2.0' in lines
    assert 'kqueue_registry_requests_total{method="GET",path="/schemas/ids/{id}",status="404"} 1.0' in lines
    assert f"kqueue_registry_request_seconds_count{{{path}}} 2.0" in lines
    for gauge in ("subjects 1", "schema_versions 1", "is_leader 1", "is_connected 0", "applied_offset 0"):
        assert f"kqueue_registry_{gauge}.0" in lines
    names = {line.split()[2].removesuffix("_total") for line in lines if line.startswith("# TYPE")}
    assert names == set(MEANINGS)


def test_metrics_are_only_read() -> None:
    answer = client().post("/metrics")
    assert (answer.status_code, answer.json()["error_code"]) == (405, 405)
