"""Connections that are cut at a commit: it happens once, and its caller sees that it did."""

from __future__ import annotations

import random
from contextlib import closing

from compat_tests.postgres.proxy import Proxy
from compat_tests.postgres.server import Server
from kqueue.base.errors import Conflict
from kqueue.metadata.postgres import PostgresStore

COMMITS = 60
FATES = ("before", "half", "after", None, None)


def test_no_commit_is_lost_or_doubled_by_cut_connections(shared_server: Server) -> None:
    """Two brokers add to one counter under guards and write keys of their own; the connections of
    one are cut at three changes of five.
    """
    decided = random.Random(7)
    fates: list[str | None] = []

    def decide(number: int) -> str | None:
        fates.append(decided.choice(FATES))
        return fates[-1]

    with Proxy(shared_server.port) as proxy:
        schema = "?schema=lost_answers"
        with (
            closing(PostgresStore(f"{proxy.address}{schema}", timeout_s=20)) as one,
            closing(PostgresStore(f"{shared_server.address}{schema}")) as two,
        ):
            one.commit({}, {"/n": b"0"}, [])
            proxy.decide = decide
            conflicts = 0
            for number in range(COMMITS):
                if number % 10 == 9:
                    two.commit({}, {"/others": b"%d" % number}, [])
                entry = one.read("/n")["/n"]
                value = b"%d" % (int(entry.value) + 1)
                if number % 20 == 19:  # a conflict changes nothing, also with lost answers
                    try:
                        one.commit({"/n": entry.version - 1}, {"/n": b"wrong"}, [])
                    except Conflict:
                        conflicts += 1
                version = one.commit({"/n": entry.version}, {"/n": value, f"/{number}": value}, [])["/n"]
                assert two.read("/n")["/n"] == (b"%d" % (number + 1), version)
            entries = two.read("/")
            assert {int(entries[f"/{number}"].value) for number in range(COMMITS)} == set(range(1, COMMITS + 1))
            assert conflicts == COMMITS // 20
            assert min(fates.count(fate) for fate in FATES) > 20, "too few connections were cut"


def test_registrations_and_campaigns_survive_cut_connections(shared_server: Server) -> None:
    """The epochs rise, and there is one session and one term, whatever is cut."""
    decided = random.Random(11)
    with Proxy(shared_server.port) as proxy:
        schema = "?schema=lost_sessions"
        with (
            closing(PostgresStore(f"{proxy.address}{schema}", timeout_s=20)) as one,
            closing(PostgresStore(f"{shared_server.address}{schema}")) as two,
        ):
            proxy.decide = lambda number: decided.choice(FATES)
            epochs = [0]
            terms = [0]
            for number in range(15):
                session = one.register(1, "same" if number % 2 else f"process-{number // 2}", 10_000)
                term = one.campaign(session)
                assert term is not None
                epochs.append(session.epoch)
                terms.append(term.epoch)
                assert {id: info.epoch for id, info in two.sessions().items()} == {1: session.epoch}
                assert two.controller() == (1, term.epoch)
                one.commit({}, {"/a": b"%d" % number}, [], by=term)
                session.end()
                assert (dict(two.sessions()), two.controller()) == ({}, None)
            assert epochs == list(range(16)), "a registration happened twice"
            assert terms == list(range(16)), "a campaign happened twice"
            assert proxy.changes > 60
