from __future__ import annotations

from kqueue.base.version import __version__
from kqueue.schema_registry.rest.contract import ClusterIds
from kqueue.tests.schema_registry.rest.api import Api, serving
from kqueue.tests.schema_registry.support import LoggedRegistry


def test_root_says_that_the_registry_serves(api: Api) -> None:
    assert api.answer("GET", "/") == {}


def test_version_is_that_of_kqueue(api: Api) -> None:
    assert api.answer("GET", "/v1/metadata/version")["version"] == __version__


def test_id_is_that_of_the_cluster_and_of_the_group(registry: LoggedRegistry) -> None:
    with serving(registry, cluster=ClusterIds("abc", "registries")) as api:
        assert api.answer("GET", "/v1/metadata/id") == {
            "scope": {"path": [], "clusters": {"kafka-cluster": "abc", "schema-registry-cluster": "registries"}}
        }
