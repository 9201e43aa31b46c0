"""What no ACL allows is refused, by the client's own error, and works once an ACL allows it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest

from compat_tests.clients.adapters.contract import (
    ADMIN_ACLS,
    ADMIN_CONFIGS,
    ADMIN_DELETE_GROUPS,
    ADMIN_DELETE_RECORDS,
    ADMIN_GROUPS,
    ADMIN_PARTITIONS,
    ADMIN_USERS,
    AUTHORIZATION,
    CLUSTER_AUTHORIZATION_FAILED,
    GROUP_AUTHORIZATION_FAILED,
    IDEMPOTENCE,
    TOPIC_AUTHORIZATION_FAILED,
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    TRANSACTIONS,
    Admin,
    BrokerError,
    Consumer,
    Place,
    Producer,
)
from compat_tests.clients.conftest import SESSION_MS, ClientFactory
from compat_tests.clients.scenario_helpers import collect
from compat_tests.clients.secured import ADMIN, SCRAM_SHA_512, USERS, Secured
from compat_tests.clients.test_admin import Name, Needs
from compat_tests.waits import eventually

pytestmark = pytest.mark.one_client

_others = itertools.cycle(user for user in USERS if user.startswith("user-"))


@dataclass
class Member:
    """A user, with what it uses: a topic with one record, a group, a transactional id."""

    user: str
    connect: ClientFactory
    config: Any
    topic: str
    new_topic: str
    group: str
    transactional_id: str

    def producer(self, **options: Any) -> Producer:
        return self.connect.producer("", config=self.config, **options)

    def consumer(self, *topics: str, **options: Any) -> Consumer:
        return self.connect.consumer("", *topics, config=self.config, session_ms=SESSION_MS, **options)

    @property
    def admin(self) -> Admin:
        return self.connect.admin("", self.config)

    @property
    def place(self) -> Place:
        return Place(self.topic, 0)


def produce(member: Member) -> None:
    member.producer().send(member.topic, b"value", partition=0).result()


def produce_idempotently(member: Member) -> None:
    member.producer(idempotent=True).send(member.topic, b"value", partition=0).result()


def produce_in_transaction(member: Member) -> None:
    producer = member.producer(transactional_id=member.transactional_id)
    producer.begin_transaction()
    producer.send(member.topic, b"value", partition=0).result()
    producer.commit_transaction()


def fetch(member: Member) -> None:
    collect(member.consumer(assign=[member.place]), 1)


def join_group(member: Member) -> None:
    collect(member.consumer(member.topic, group=member.group), 1)


def commit_offset(member: Member) -> None:
    member.consumer(assign=[member.place], group=member.group).commit({member.place: 0})


def describe_topic(member: Member) -> None:
    assert set(member.admin.describe_topic(member.topic)) == {0}


def create_topic(member: Member) -> None:
    member.admin.create_topic(member.new_topic)


def delete_topic(member: Member) -> None:
    member.admin.delete_topic(member.topic)


def add_partitions(member: Member) -> None:
    member.admin.add_partitions(member.topic, 2)


def describe_settings(member: Member) -> None:
    assert member.admin.topic_settings(member.topic)["retention.ms"]


def alter_settings(member: Member) -> None:
    member.admin.alter_topic(member.topic, {"retention.ms": "7200000"})


def delete_records(member: Member) -> None:
    member.admin.delete_records(member.place, 1)


def describe_group(member: Member) -> None:
    member.admin.describe_group(member.group)


def delete_group(member: Member) -> None:
    member.admin.delete_group(member.group)


def describe_acls(member: Member) -> None:
    member.admin.allowed("nobody")


def describe_users(member: Member) -> None:
    member.admin.users()


class Operation(NamedTuple):
    """What a user does.

    Attributes:
        act: does it.
        before: ACLs that the user has and that are not enough, as text: ``read topic:{topic}``.
        needed: the one that is.
        code: of the error without it.
        feature: of clients that can do it; None: all.
        other: clients that do not report the error, with the code that they have instead, or why
            the test is skipped.
    """

    act: Callable[[Member], None]
    before: tuple[str, ...]
    needed: str
    code: int
    feature: str | None = None
    other: Mapping[str, int | str] = {}


WAIT_COORD = -180
"""Of librdkafka, which asks for the coordinator until the call's time is over."""
EMPTY = "librdkafka returns no ACLs, and not the error"
CRASH = "librdkafka 2.16 frees memory twice, and ends the process"
DESCRIBED, READ, WRITTEN = ("describe topic:{topic}",), ("read topic:{topic}",), ("write topic:{topic}",)
NO_GROUP = "read group:not used"
NAMES = {
    TOPIC_AUTHORIZATION_FAILED: "TopicAuthorizationFailed",
    GROUP_AUTHORIZATION_FAILED: "GroupAuthorizationFailed",
    CLUSTER_AUTHORIZATION_FAILED: "ClusterAuthorizationFailed",
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "TransactionalIdAuthorizationFailed",
}
"""How the classes of clients in Python begin, by code."""
TOPIC, GROUP, CLUSTER = TOPIC_AUTHORIZATION_FAILED, GROUP_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED
OPERATIONS = [
    Operation(produce, DESCRIBED, "write topic:{topic}", TOPIC),
    Operation(produce_idempotently, DESCRIBED, "write topic:{topic}", CLUSTER, IDEMPOTENCE),
    Operation(
        produce_in_transaction,
        WRITTEN,
        "write transactional_id:{transactional_id}",
        TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        TRANSACTIONS,
    ),
    Operation(fetch, DESCRIBED, "read topic:{topic}", TOPIC),
    Operation(join_group, READ, "read group:{group}", GROUP),
    Operation(commit_offset, READ, "read group:{group}", GROUP, other={"confluent-kafka": WAIT_COORD}),
    Operation(describe_topic, (), "describe topic:{topic}", TOPIC),
    Operation(create_topic, DESCRIBED, "create topic:{new_topic}", TOPIC),
    Operation(delete_topic, WRITTEN, "delete topic:{topic}", TOPIC),
    Operation(add_partitions, WRITTEN, "alter topic:{topic}", TOPIC, ADMIN_PARTITIONS),
    Operation(describe_settings, WRITTEN, "describe_configs topic:{topic}", TOPIC, ADMIN_CONFIGS),
    Operation(alter_settings, WRITTEN, "alter_configs topic:{topic}", TOPIC, ADMIN_CONFIGS),
    Operation(delete_records, WRITTEN, "delete topic:{topic}", TOPIC, ADMIN_DELETE_RECORDS),
    Operation(describe_group, READ, "describe group:{group}", GROUP, ADMIN_GROUPS),
    Operation(delete_group, READ, "delete group:{group}", GROUP, ADMIN_DELETE_GROUPS),
    Operation(describe_acls, DESCRIBED, "describe cluster", CLUSTER, ADMIN_ACLS, {"confluent-kafka": EMPTY}),
    Operation(describe_users, DESCRIBED, "describe cluster", CLUSTER, ADMIN_USERS, {"confluent-kafka": CRASH}),
]


@pytest.fixture
def member(connect: ClientFactory, secured: Secured, secured_topic: str, name: Name) -> Member:
    """Return a user whom nothing is allowed yet; the topic has a record, the group an offset."""
    user = next(_others)
    config = secured.config(connect.client, user)
    powerless = Member(user, connect, config, secured_topic, name("new"), name("group"), name("txn"))
    master = Member(ADMIN, connect, secured.config(connect.client, ADMIN), *list(vars(powerless).values())[3:])
    produce(master)
    commit_offset(master)
    return powerless


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.act.__name__)
def test_an_operation_needs_its_acl(operation: Operation, member: Member, secured: Secured, needs: Needs) -> None:
    needs(AUTHORIZATION)
    client = member.connect.client.name
    if operation.feature not in (None, *member.connect.client.features):
        pytest.skip(f"{client} lacks {operation.feature}")
    code = operation.other.get(client, operation.code)
    if isinstance(code, str):
        pytest.skip(code)
    names = {key: value for key, value in vars(member).items() if isinstance(value, str)}
    # librdkafka's consumer has a group even if it assigns partitions itself
    secured.allow(*(f"User:{member.user} allow {one}".format(**names) for one in (*operation.before, NO_GROUP)))
    with pytest.raises(Exception, match=rf"error {code}:|\[Error {code}\]") as refusal:
        operation.act(member)
    own = refusal.value.__cause__
    if own is not None and client != "confluent-kafka":
        assert type(own).__name__.startswith(NAMES[operation.code])
    secured.allow(f"User:{member.user} allow {operation.needed}".format(**names))
    operation.act(member)


def test_topic_without_describe_permission_is_not_listed(member: Member, secured: Secured, needs: Needs) -> None:
    """It is in no list, and what matches a pattern does not have it."""
    needs(AUTHORIZATION)
    hidden = f"{member.topic}-hidden"
    secured.create_topic(hidden)
    secured.allow(
        f"User:{member.user} allow read topic:{member.topic}", f"User:{member.user} allow read group:{member.group}"
    )
    assert member.admin.topics() == {member.topic}
    consumer = member.consumer(group=member.group)
    consumer.subscribe_pattern(f"^{member.topic}.*")
    collect(consumer, 1)
    assert consumer.assignment() == {member.place}
    for unseen in (hidden, f"{hidden}-that-does-not-exist"):
        with pytest.raises(BrokerError) as refusal:
            member.admin.describe_topic(unseen)
        assert refusal.value.code == TOPIC_AUTHORIZATION_FAILED


def test_acls_are_administered(member: Member, secured: Secured, needs: Needs) -> None:
    needs(ADMIN_ACLS)
    admin = member.connect.admin("", secured.config(member.connect.client, ADMIN))
    assert admin.forbid(member.user) >= 0
    for operation in ("WRITE", "DESCRIBE"):
        admin.allow(member.user, operation, member.topic)
    assert admin.allowed(member.user) == {("WRITE", member.topic), ("DESCRIBE", member.topic)}
    produce(member)
    assert admin.forbid(member.user) == 2
    assert admin.allowed(member.user) == set()
    secured.allow(f"User:{member.user} allow describe topic:{member.topic}")  # else kafka-python 2.0 waits
    eventually(lambda: code_of(produce, member) == TOPIC_AUTHORIZATION_FAILED, "writing is not allowed any more")


def code_of(act: Callable[[Member], None], member: Member) -> int:
    try:
        act(member)
    except BrokerError as error:
        return error.code
    return 0


def test_scram_users_are_administered(
    connect: ClientFactory, secured: Secured, secured_topic: str, name: Name, needs: Needs
) -> None:
    needs(ADMIN_USERS)
    admin = connect.admin("", secured.config(connect.client, ADMIN))
    user = name("user")
    admin.set_password(user, "first")
    assert user in admin.users()
    secured.allow(f"User:{user} allow write topic:{secured_topic}")
    for password in ("first", "second"):
        admin.set_password(user, password)
        config = secured.config(connect.client, user, mechanism=SCRAM_SHA_512, password=password)
        assert connect.producer("", config=config).send(secured_topic, b"value", partition=0).result().offset >= 0
    admin.set_password(user, None)
    assert user not in admin.users()
