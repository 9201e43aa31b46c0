"""Registries that run, for their tests."""

from __future__ import annotations

from kqueue.schema_registry.server import RegistryServer
from kqueue.tests.waits import eventually


def leader_and_other(servers: list[RegistryServer]) -> tuple[RegistryServer, RegistryServer]:
    """Return the one of two registries that writes, and the other, once both know."""

    def agree() -> bool:
        first, second = (server._leadership.leader_url() for server in servers)
        return first is not None and first == second and servers[0].is_leader is not servers[1].is_leader

    eventually(agree, "an election")
    leader, other = sorted(servers, key=lambda server: not server.is_leader)
    return leader, other
