"""Requests of users with few rights, as `test_access` sends those of nobody in particular."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from compat_tests.kafka.secured import PASSWORD, Secured
from compat_tests.kafka.test_access import FIRST_VERSIONS, Acl, Asker, World
from compat_tests.waits import look_until
from kqueue.api.handler_table import ApiHandler
from kqueue.security.operations import CLUSTER_NAME, WILDCARD, AclOperation, ResourceType
from kqueue.tests.api.access_requests import NAMES, ROWS, values_in
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from kqueue.wire.messages.sasl_handshake import SaslHandshakeRequest

Op, Type = AclOperation, ResourceType
RIGHTS: dict[str, list[tuple[AclOperation, ResourceType, str]]] = {
    "eve": [],
    "reader": [(Op.READ, Type.TOPIC, "t"), (Op.READ, Type.GROUP, "g")],
    "writer": [(Op.WRITE, Type.TOPIC, "t"), (Op.WRITE, Type.TRANSACTIONAL_ID, "tx")],
    "describer": [(Op.DESCRIBE, kind, WILDCARD) for kind in (Type.TOPIC, Type.GROUP, Type.TRANSACTIONAL_ID)]
    + [(Op.DESCRIBE, Type.CLUSTER, CLUSTER_NAME)],
    "operator": [
        (operation, kind, NAMES[kind])
        for operation in (Op.DESCRIBE_CONFIGS, Op.ALTER_CONFIGS)
        for kind in (Type.TOPIC, Type.GROUP, Type.CLUSTER)
    ],
}
"""What each user may do."""
BUSY = ErrorCode.CONCURRENT_TRANSACTIONS.name


class UserAsker(Asker):
    """A connection of a user who authenticated by PLAIN."""

    def __init__(self, broker: Secured, user: str) -> None:
        super().__init__(broker.bootstrap("SASL_PLAINTEXT"), "127.0.0.1")
        assert self.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        token = f"\0{user}\0{PASSWORD}".encode()
        assert self.ask(SaslAuthenticateRequest(auth_bytes=token), 2).error_code == 0


class Answer(NamedTuple):
    """Error codes, names of topics and numbers of allowed operations in a response."""

    codes: set[str]
    topics: set[str]
    operations: list[int]


def sees_topic(user: str) -> bool:
    """Whether the user may describe `t`: READ and WRITE say so too."""
    return any(
        kind is Type.TOPIC and operation in {Op.READ, Op.WRITE, Op.DESCRIBE} for operation, kind, _ in RIGHTS[user]
    )


def grant_rights(world: World) -> None:
    world.create(*(Acl(*right, "*", principal=f"User:{user}") for user, rights in RIGHTS.items() for right in rights))


def requests(world: World) -> Iterator[tuple[ApiHandler, int]]:
    """Every API with rules, with the first and the last version of both brokers."""
    for row in ROWS:
        if row.access:
            first = max(row.versions[0], world.first_versions[row.api.key], FIRST_VERSIONS.get(row.api.module_name, 0))
            yield from ((row, version) for version in sorted({first, row.versions[1]}))


def answer(broker: Secured, world: World, user: str, row: ApiHandler, version: int) -> Answer | None:
    """What the user is answered; None: the connection was closed. Asks again while a transaction is
    being ended.
    """
    return look_until(
        lambda: _answer(broker, world, user, row, version),
        lambda result: result is None or BUSY not in result.codes,
        f"an answer to {row.api.name}",
    )


def _answer(broker: Secured, world: World, user: str, row: ApiHandler, version: int) -> Answer | None:
    client = UserAsker(broker, user)
    try:
        response: Any = client.ask(world.request(row.api.module_name, version, {}), version)
    finally:
        client.close()
    if response is None:
        return None
    codes = {ErrorCode(code).name for code in values_in(response, "error_code")} - {"NONE"}
    names = {name for field in ("topic_name", "topic") for name in values_in(response, field) if isinstance(name, str)}
    return Answer(codes, names, sorted(values_in(response, "authorized_operations")))
