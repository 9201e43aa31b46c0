from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kqueue.schema_registry.rest.app import ENDPOINTS, registry_app
from kqueue.schema_registry.rest.call import Endpoint
from kqueue.tests.schema_registry.rest.api import Api, serving
from kqueue.tests.schema_registry.support import INT, LoggedRegistry
from kqueue.tests.thorough import examples

SHARED = LoggedRegistry()
"""Of all requests that are made up, so that some find what others left."""
MEMBERS = [
    "schema",
    "schemaType",
    "references",
    "name",
    "subject",
    "version",
    "id",
    "metadata",
    "tags",
    "properties",
    "sensitive",
    "ruleSet",
    "domainRules",
    "type",
    "mode",
    "compatibility",
    "alias",
    "normalize",
    "defaultMetadata",
    "overrideRuleSet",
    "compatibilityGroup",
]


def test_every_endpoint_is_routed(api: Api) -> None:
    for endpoint in ENDPOINTS:
        path = endpoint.path.format(subject="a", version="1", id="1", guid="g")
        response = api.request(endpoint.method, path)
        assert response.status_code != 405, endpoint
        assert "names no resource" not in response.text, endpoint


def test_no_endpoint_is_there_twice() -> None:
    assert len({(endpoint.method, endpoint.path) for endpoint in ENDPOINTS}) == len(ENDPOINTS)


def test_unknown_path_is_an_error_in_json(api: Api) -> None:
    for path in ("/none", "/subjects/a/b", "/subjects/a/versions/1/2", "/config/a/b", "/contexts/.c/none"):
        assert api.error("GET", path) == 404


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2**32) | st.text(max_size=3) | st.sampled_from([INT, "AVRO", "JSON"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=4),
    max_leaves=8,
)
BODIES = JSON | st.fixed_dictionaries(
    {"schema": st.sampled_from([INT, '{"type":"array","items":"E"}'])},
    optional={member: JSON for member in MEMBERS if member != "schema"},
)
TEXTS = st.sampled_from(["a", ":.c:a", ":.c:", "%00", "%ff", "1", "latest", "-1", "2147483648", "%2F", "x" * 2000])
QUERIES = st.dictionaries(
    st.sampled_from(sorted({name for endpoint in ENDPOINTS for name in endpoint.parameters})),
    st.sampled_from(["true", "", "1", "-1", "x", ":.c:a", ":*:", "resolved", "\ud7ff"]),
    max_size=3,
)


@settings(max_examples=examples(200))
@given(st.sampled_from(ENDPOINTS), st.lists(TEXTS, min_size=2, max_size=2), QUERIES, BODIES)
def test_no_request_is_an_unexpected_error(endpoint: Endpoint, texts: list[str], query: Any, body: Any) -> None:
    first, second = texts
    path = endpoint.path.format(subject=first, version=second, id=first, guid=first)
    with serving(SHARED) as api:
        response = api.request(endpoint.method, path, params=query, json=body)
    assert response.status_code < 500, response.text
    assert response.text


def test_slash_at_the_end_makes_no_difference(api: Api) -> None:
    assert api.answer("GET", "/subjects/") == []


def test_path_that_is_not_ascii_is_refused(registry: LoggedRegistry) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("nothing is read")

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "GET", "path": "/ü", "raw_path": b"/\xfc", "query_string": b"", "headers": []}
    asyncio.run(registry_app(registry)(scope, receive, send))
    assert sent[0]["status"] == 400
    assert b'"error_code":400' in sent[1]["body"]
