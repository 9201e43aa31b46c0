"""The public checks of cluster stores, on PostgreSQL."""

from __future__ import annotations

import hashlib
from functools import partial

from compat_tests.postgres.server import Server
from kqueue.metadata.postgres import PostgresStore
from kqueue.testing.cluster_store_checks import check_cluster_store


def open_store(address: str, folder: str) -> PostgresStore:
    """A store in a schema that stands for the folder."""
    return PostgresStore(f"{address}?schema=k{hashlib.sha1(folder.encode()).hexdigest()[:30]}", timeout_s=10)


def test_postgres_meets_the_contract_of_cluster_stores(shared_server: Server) -> None:
    check_cluster_store(partial(open_store, shared_server.address), session_timeout_ms=1000)
