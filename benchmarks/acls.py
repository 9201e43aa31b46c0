"""`python -m benchmarks.acls`: what one decision costs with 10,000 ACLs: the first time, when it is
known, and of many topics at once; and how long it takes to load the ACLs and to search them.

Processor time, without garbage collection. Target: a known decision below 2 us.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterator

from benchmarks.results import Figure, Row, print_rows
from kqueue.security.acls import AclBinding, AclFilter, AclIndex
from kqueue.security.authorizer import Action, AuthorizerSetup, Client, FailClosedAuthorizer
from kqueue.security.operations import AclOperation, AclPermission, PatternType, ResourceType
from kqueue.security.principals import Principal
from kqueue.security.standard_authorizer import StandardAuthorizer

ACLS, USERS, TOPICS, ASKED = 10_000, 500, 2_000, 20_000


def bindings(rng: random.Random) -> list[AclBinding]:
    """One in four is prefixed, one in twenty denies."""
    acls: dict[AclBinding, None] = {}
    while len(acls) < ACLS:
        topic, user = rng.randrange(TOPICS), rng.randrange(USERS)
        acls[
            AclBinding(
                ResourceType.TOPIC,
                f"topic-{topic}",
                rng.choice([PatternType.LITERAL] * 3 + [PatternType.PREFIXED]),
                f"User:{user}",
                "*",
                rng.choice((AclOperation.READ, AclOperation.WRITE)),
                AclPermission.DENY if rng.random() < 0.05 else AclPermission.ALLOW,
            )
        ] = None
    return list(acls)


def timed_us(call: Callable[[], object]) -> float:
    began_ns = time.process_time_ns()
    call()
    return (time.process_time_ns() - began_ns) / 1000


def rows() -> Iterator[Row]:
    """Yield the rows: loading, decisions and a search, with 10,000 ACLs."""
    rng = random.Random(1)
    entries = bindings(rng)
    index = AclIndex()
    collects = gc.isenabled()
    gc.disable()

    def load() -> None:
        for binding in entries:
            index.add(binding)

    try:
        load_us = timed_us(load)
        authorizer = FailClosedAuthorizer(StandardAuthorizer(AuthorizerSetup(index)))
        clients = [Client(Principal("User", str(number)), "10.0.0.7", "SASL_SSL") for number in range(USERS)]
        actions = [Action(AclOperation.READ, ResourceType.TOPIC, f"topic-{number}") for number in range(TOPICS)]
        asked = list(dict.fromkeys((rng.choice(clients), rng.choice(actions)) for _ in range(ASKED)))

        def ask() -> None:
            for client, action in asked:
                authorizer.authorize(client, (action,))

        note = f"{ACLS:,} ACLs of {USERS} users and {TOPICS:,} topics"
        for state, aim_us in (("new", None), ("known", 2.0)):
            took_us = timed_us(ask) / len(asked)
            figures = [Figure(took_us, "CPU µs", at_most=aim_us), Figure(1e6 / took_us, "decisions/s")]
            yield Row(f"one decision of the authorizer, {state}", figures, note)
        for state in ("new", "known"):
            took_us = timed_us(lambda: authorizer.authorize(clients[0], actions)) / TOPICS
            yield Row(f"{TOPICS:,} topics in one question, {state}", [Figure(took_us, "CPU µs each")])
        any_us = timed_us(lambda: authorizer.authorize_any(clients[0], AclOperation.CREATE, ResourceType.TOPIC))
        match = AclFilter(ResourceType.TOPIC, "topic-1999", PatternType.MATCH)
        search_us = timed_us(lambda: [entry for entry in index if match.matches(entry)])
        yield Row(
            f"{ACLS:,} ACLs: load, any topic, search",
            [Figure(us / 1000, unit) for us, unit in ((load_us, "ms"), (any_us, "ms"), (search_us, "ms"))],
        )
    finally:
        if collects:
            gc.enable()


if __name__ == "__main__":
    print_rows(rows())
