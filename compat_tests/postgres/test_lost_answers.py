"""Connections that are cut at a commit: it happens once, and its caller sees that it did."""

from __future__ import annotations

from contextlib import closing

from compat_tests.lost_answers import commit_once_each, register_once_each
from compat_tests.postgres.proxy import Proxy
from compat_tests.postgres.server import Server
from kqueue.metadata.postgres import PostgresStore


def test_no_commit_is_lost_or_doubled_by_cut_connections(shared_server: Server) -> None:
    with Proxy(shared_server.port) as proxy:
        schema = "?schema=lost_answers"
        with (
            closing(PostgresStore(f"{proxy.address}{schema}", timeout_s=20)) as one,
            closing(PostgresStore(f"{shared_server.address}{schema}")) as two,
        ):
            commit_once_each(one, two, proxy.fates, commits=60, conflict_every=20, cut_min=20)


def test_registrations_and_campaigns_survive_cut_connections(shared_server: Server) -> None:
    """The epochs rise, and there is one session and one term, whatever is cut."""
    with Proxy(shared_server.port) as proxy:
        schema = "?schema=lost_sessions"
        with (
            closing(PostgresStore(f"{proxy.address}{schema}", timeout_s=20)) as one,
            closing(PostgresStore(f"{shared_server.address}{schema}")) as two,
        ):
            epochs, terms = register_once_each(one, two, proxy.fates)
            assert epochs == list(range(16)), "a registration happened twice"
            assert terms == list(range(16)), "a campaign happened twice"
