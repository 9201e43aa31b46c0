"""Users, tokens, ACLs and quotas that one broker of a cluster stored: soon all of them know, and so
do those that are left after a failover.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable, Iterator

import pytest

import kqueue
from kqueue.base.errors import KqueueError
from kqueue.client import Client, ClientOptions
from kqueue.client.calls.quotas import QuotaAlteration
from kqueue.client.calls.scram_users import SaltedPassword
from kqueue.client.connection import Connection
from kqueue.client.deadline import Deadline
from kqueue.config.client_security import ClientSecurity
from kqueue.embedded.cluster_broker import ClusterBroker
from kqueue.security.acl_text import parse_acls
from kqueue.security.acls import AclFilter
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import SaslLogin
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, salted_password
from kqueue.tests.waits import eventually
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.create_delegation_token import CreateDelegationTokenRequest
from kqueue.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kqueue.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest

BOUND_S = 10.0
"""Within which every broker knows a change, on a busy machine too; two seconds on others."""
SCRAM = "SCRAM-SHA-256"
ADMIN = SaslLogin(SCRAM, "admin", "admin-secret")
ANN = SaslLogin(SCRAM, "ann", "ann-secret")


@pytest.fixture(scope="module")
def cluster() -> Iterator[kqueue.Cluster]:
    settings = {"authorizer.class.name": "standard", "super.users": "User:admin", "delegation.token.secret.key": "key",
                "connection.failed.authentication.delay.ms": 0, "controller.quota.window.num": 1}  # fmt: skip
    with kqueue.Cluster(3, users={"admin": ADMIN.password}, settings=settings) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: kqueue.Cluster) -> Iterator[Client]:
    with Client(cluster.bootstrap, security=security_of(ADMIN)) as client:
        yield client


def security_of(login: SaslLogin) -> ClientSecurity:
    return ClientSecurity(SecurityProtocol.SASL_PLAINTEXT, None, login)


def connect(broker: ClusterBroker, login: SaslLogin, client_id: str = "test") -> Connection:
    options = ClientOptions(bootstrap=broker.bootstrap, security=security_of(login), client_id=client_id)
    return Connection(options.addresses[0], options, Deadline(30_000))


def knows(broker: ClusterBroker, login: SaslLogin) -> bool:
    """Whether it lets a user in."""
    try:
        connect(broker, login).close()
    except KqueueError:
        return False
    return True


def at_each(met: Callable[[ClusterBroker], bool], brokers: list[ClusterBroker]) -> None:
    """Return when all of these brokers agree, each asked by itself."""
    for broker in brokers:
        eventually(lambda broker=broker: met(broker), broker)  # type: ignore[misc]


@contextlib.contextmanager
def without(cluster: kqueue.Cluster, broker: int) -> Iterator[list[ClusterBroker]]:
    """The brokers that are left when one is killed, which starts again at the end."""
    cluster.kill(broker)
    try:
        yield [each for each in cluster.brokers if each.id != broker]
    finally:
        cluster.start(broker)


def set_password(client: Client, login: SaslLogin) -> None:
    mechanism = SCRAM_MECHANISMS[login.mechanism]
    salted = salted_password(mechanism, login.password.encode(), b"salt of 16 bytes", 4096)
    client.cluster.set_scram_password(login.user, SaltedPassword(mechanism.number, 4096, b"salt of 16 bytes", salted))


def test_passwords(cluster: kqueue.Cluster, admin: Client) -> None:
    set_password(admin, ANN)
    at_each(lambda broker: knows(broker, ANN), [*cluster.brokers])
    changed = SaslLogin(SCRAM, "ann", "another secret")
    set_password(admin, changed)
    at_each(lambda broker: knows(broker, changed), [*cluster.brokers])
    assert not any(knows(broker, ANN) for broker in cluster.brokers)
    with without(cluster, cluster.controller) as left:
        assert all(knows(broker, changed) for broker in left)
        admin.cluster.remove_scram_password("ann", SCRAM_MECHANISMS[SCRAM].number)
        at_each(lambda broker: not knows(broker, changed), left)
    assert not any(knows(broker, changed) for broker in cluster.brokers)


def test_tokens(cluster: kqueue.Cluster) -> None:
    deadline = Deadline(30_000)
    with contextlib.closing(connect(cluster[0], ADMIN)) as connection:
        request = CreateDelegationTokenRequest(max_lifetime_ms=-1)
        created = connection.call(BY_MODULE["create_delegation_token"], 3, request, deadline)
        assert created.error_code == 0
    token = SaslLogin(SCRAM, created.token_id, base64.b64encode(created.hmac).decode(), by_token=True)
    at_each(lambda broker: knows(broker, token), [*cluster.brokers])
    with without(cluster, 0) as left:
        assert all(knows(broker, token) for broker in left)
        with contextlib.closing(connect(left[0], ADMIN)) as connection:
            request = ExpireDelegationTokenRequest(hmac=created.hmac, expiry_time_period_ms=-1)
            assert connection.call(BY_MODULE["expire_delegation_token"], 2, request, deadline).error_code == 0
        at_each(lambda broker: not knows(broker, token), left)
    assert not knows(cluster[0], token), "what it missed it knows before it serves"


def test_acls(cluster: kqueue.Cluster, admin: Client) -> None:
    set_password(admin, ANN)
    at_each(lambda broker: knows(broker, ANN), [*cluster.brokers])

    def may_create(broker: ClusterBroker) -> bool:
        with contextlib.closing(connect(broker, ANN)) as connection:
            topics = [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]
            request = CreateTopicsRequest(topics=topics, validate_only=True)
            response = connection.call(BY_MODULE["create_topics"], 7, request, Deadline(30_000))
        code = response.topics[0].error_code
        assert code in (ErrorCode.NONE, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return bool(code == ErrorCode.NONE)

    assert not may_create(cluster[0])
    admin.cluster.create_acls(parse_acls(["User:ann allow create topic:t"]))
    at_each(may_create, [*cluster.brokers])
    with without(cluster, cluster.controller) as left:
        assert all(map(may_create, left))
        admin.cluster.delete_acls([AclFilter()])
        at_each(lambda broker: not may_create(broker), left)
    assert not any(map(may_create, cluster.brokers))


def test_quotas_bound_what_a_client_does_at_each_broker(cluster: kqueue.Cluster, admin: Client) -> None:
    """As in Kafka each broker measures for itself; changes of partitions too, unlike in Kafka."""
    entity = {"client-id": "app"}
    [outcome] = admin.cluster.alter_quotas([QuotaAlteration(entity, {"controller_mutation_rate": 1.0})])
    assert outcome.code == 0

    def create(connection: Connection, name: str) -> int:
        topics = [CreatableTopic(name=name, num_partitions=30, replication_factor=1)]
        request = CreateTopicsRequest(topics=topics, validate_only=True)
        response = connection.call(BY_MODULE["create_topics"], 7, request, Deadline(30_000))
        return int(response.topics[0].error_code)

    def is_bounded(broker: ClusterBroker) -> bool:
        with contextlib.closing(connect(broker, ADMIN, "app")) as connection:
            codes = [create(connection, "a")]
            if codes == [ErrorCode.NONE]:  # else the connection is not read for a while
                codes.append(create(connection, "b"))
        assert {*codes} <= {ErrorCode.NONE, ErrorCode.THROTTLING_QUOTA_EXCEEDED}
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED in codes

    with without(cluster, 2) as left:
        at_each(is_bounded, left)
    assert is_bounded(cluster[2])
    admin.cluster.alter_quotas([QuotaAlteration(entity, {"controller_mutation_rate": None})])
    at_each(lambda broker: not is_bounded(broker), [*cluster.brokers])
