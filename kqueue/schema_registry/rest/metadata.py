"""`/` and `/v1/metadata`: that there is a registry, and which."""

from __future__ import annotations

from kqueue.base.version import __version__
from kqueue.schema_registry.rest.call import Call, Endpoint


def get_root(call: Call) -> object:
    """Return an empty object: the registry serves."""
    return {}


def get_version(call: Call) -> object:
    """Return the version of the registry."""
    return {"version": __version__, "commitId": ""}


def get_id(call: Call) -> object:
    """Return the ids of the Kafka cluster, and of the group of registries."""
    clusters = {"kafka-cluster": call.cluster.kafka_cluster_id, "schema-registry-cluster": call.cluster.group_id}
    return {"scope": {"path": [], "clusters": clusters}}


ENDPOINTS = (
    Endpoint("GET", "/", "an empty object", get_root),
    Endpoint("GET", "/v1/metadata/id", "the ids of the Kafka cluster and of the registries", get_id),
    Endpoint("GET", "/v1/metadata/version", "the version of kqueue", get_version),
)
