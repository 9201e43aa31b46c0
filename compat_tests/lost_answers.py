"""What holds of a metadata store whose connections are cut at commits: those of one broker go
through a proxy, those of another do not.
"""

from __future__ import annotations

import random

from compat_tests.tcp_proxy import Fates
from kqueue.base.errors import Conflict
from kqueue.metadata.store import ClusterStore

FATES = ("before", "half", "after", None, None)


def commit_once_each(
    one: ClusterStore, two: ClusterStore, fates: Fates, *, commits: int, conflict_every: int, cut_min: int
) -> None:
    """Add to one counter under guards and write keys of their own; three changes of five of `one`
    are cut, more than `cut_min` in each way.

    Args: conflict_every: a commit with an old version is tried once in so many.
    """
    decided = random.Random(7)
    met: list[str | None] = []

    def decide(number: int) -> str | None:
        met.append(decided.choice(FATES))
        return met[-1]

    one.commit({}, {"/n": b"0"}, [])
    fates.decide = decide
    conflicts = 0
    for number in range(commits):
        if number % 10 == 9:
            two.commit({}, {"/others": b"%d" % number}, [])
        entry = one.read("/n")["/n"]
        value = b"%d" % (int(entry.value) + 1)
        if number % conflict_every == conflict_every - 1:  # a conflict changes nothing, also with lost answers
            try:
                one.commit({"/n": entry.version - 1}, {"/n": b"wrong"}, [])
            except Conflict:
                conflicts += 1
        version = one.commit({"/n": entry.version}, {"/n": value, f"/{number}": value}, [])["/n"]
        assert two.read("/n")["/n"] == (b"%d" % (number + 1), version)
    entries = two.read("/")
    assert {int(entries[f"/{number}"].value) for number in range(commits)} == set(range(1, commits + 1))
    assert conflicts == commits // conflict_every
    assert min(met.count(fate) for fate in FATES) > cut_min, "too few connections were cut"


def register_once_each(one: ClusterStore, two: ClusterStore, fates: Fates) -> tuple[list[int], list[int]]:
    """Register and campaign fifteen times, with one session and one term at a time; return the
    epochs of sessions and terms, each after a 0.
    """
    decided = random.Random(11)
    fates.decide = lambda number: decided.choice(FATES)
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
    assert fates.count > 60
    return epochs, terms
