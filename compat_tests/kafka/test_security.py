"""Kafka's Java clients and tools with a secured Kafka, and a kqueue of the same settings."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from compat_tests.kafka import clients
from compat_tests.kafka.acl_scenarios import SCENARIOS
from compat_tests.kafka.admin_scenarios import Scenario
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.secured import ADMIN, PASSWORD, SCRAM, Secured, secured_pair
from compat_tests.kafka.security_scenarios import (
    BYTES_PER_S,
    CONSUMER_USER,
    FETCH_TOPIC,
    PRODUCE_TOPIC,
    PRODUCER_USER,
    TOPIC,
    scenarios,
)
from compat_tests.kafka.security_tools import TOOL_SCENARIOS, Tools
from compat_tests.kafka.test_access import Acl, World, hidden
from compat_tests.kafka.test_admin_answers import answers
from compat_tests.kafka.tool_host import ToolHost
from compat_tests.kafka.user_access import RIGHTS, answer, grant_rights, requests, sees_topic
from kqueue.security.operations import WILDCARD, AclOperation, ResourceType
from kqueue.security.scram_credentials import SCRAM_MECHANISMS, salted_password
from kqueue.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryDataInRequest,
    OpData,
)
from kqueue.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)

SALT, ITERATIONS = b"0123456789abcdef", 4096
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def brokers(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Secured, Secured]]:
    """A Kafka and a kqueue."""
    with secured_pair(tmp_path_factory.mktemp("security"), formatted) as pair:
        yield pair


@pytest.fixture(scope="module")
def worlds(brokers: tuple[Secured, Secured]) -> tuple[World, World]:
    """The brokers as their administrator sees them."""
    first, second = (World(broker.bootstrap()) for broker in brokers)
    for broker, world in zip(brokers, (first, second), strict=True):
        prepare(broker, world)
        grant_rights(world)
    return first, second


def prepare(broker: Secured, world: World) -> None:
    """Make users, ACLs and quotas."""
    add_scram_users(world)
    everyone = [ResourceType.TOPIC, ResourceType.GROUP]
    world.create(
        *(
            Acl(AclOperation.ALL, kind, WILDCARD, "*", principal=f"User:{user}")
            for user in ("ann", PRODUCER_USER, CONSUMER_USER)
            for kind in everyone
        )
    )
    for topic in (TOPIC, PRODUCE_TOPIC, FETCH_TOPIC):
        clients.create_topic(broker.bootstrap(), topic)
    set_quota(world, PRODUCER_USER, "producer_byte_rate", BYTES_PER_S)
    set_quota(world, CONSUMER_USER, "consumer_byte_rate", BYTES_PER_S)


def add_scram_users(world: World) -> None:
    for name in (ADMIN, "ann"):
        for mechanism in map(SCRAM_MECHANISMS.__getitem__, SCRAM):
            salted = salted_password(mechanism, PASSWORD.encode(), SALT, ITERATIONS)
            upsertion = ScramCredentialUpsertion(
                name=name, mechanism=mechanism.number, iterations=ITERATIONS, salt=SALT, salted_password=salted
            )
            response = world.admin.ask(AlterUserScramCredentialsRequest(upsertions=[upsertion]), 0)
            assert [result.error_code for result in response.results] == [0], response


def set_quota(world: World, user: str, key: str, value: float) -> None:
    entry = EntryDataInRequest(
        entity=[EntityData(entity_type="user", entity_name=user)], ops=[OpData(key=key, value=value)]
    )
    response = world.admin.ask(AlterClientQuotasRequest(entries=[entry]), 1)
    assert [result.error_code for result in response.entries] == [0], response


# --- clients


@pytest.fixture(scope="module")
def outcomes(
    brokers: tuple[Secured, Secured],
    worlds: tuple[World, World],
    tools: ToolHost,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, str]]:
    """The results of all scenarios, by broker."""
    file = tmp_path_factory.mktemp("scenarios") / "scenarios"
    both = [(scenario, broker) for broker in brokers for scenario in scenarios(broker)]
    both.sort(key=lambda one: one[0].action == "connect")  # the long ones first
    lines = [scenario.line(broker) for scenario, broker in both]
    file.write_text("".join(f"{line}\n" for line in lines))
    secrets = brokers[0].secrets
    urls = ",".join(secrets.url(f"{name}.jwt") for name in ("good", "forged", "for-others"))
    done = tools.run("SecurityCalls", file, urls, timeout_s=TIMEOUT_S)
    assert done.status == 0, done.stderr
    results: dict[str, dict[str, str]] = {}
    for line in done.stdout.splitlines():
        name, result = line.split("=", 1)
        broker, _, scenario = name.partition(" ")
        results.setdefault(broker, {})[scenario] = result
    return results


def test_clients_authenticate_or_fail_as_with_kafka(
    brokers: tuple[Secured, Secured], outcomes: dict[str, dict[str, str]]
) -> None:
    for broker in brokers:
        expected = {one.name: one.expected for one in scenarios(broker) if one.expected is not None}
        results = {name: result for name, result in outcomes[broker.name].items() if name in expected}
        assert results == expected, broker.name


@pytest.mark.parametrize("user", [PRODUCER_USER, CONSUMER_USER])
def test_a_quota_is_held(outcomes: dict[str, dict[str, str]], user: str) -> None:
    """Clients ask for 1.4 times of it; a burst is a twelfth. Busy machines send half of it."""
    for broker, results in outcomes.items():
        assert 0.3 * BYTES_PER_S < int(results[user]) < 1.1 * BYTES_PER_S, broker


@pytest.mark.parametrize("user", RIGHTS)
def test_a_user_with_few_rights_gets_kafkas_errors(
    brokers: tuple[Secured, Secured], worlds: tuple[World, World], user: str
) -> None:
    different = []
    for row, version in requests(worlds[0]):
        kafkas, ours = (answer(*both, user, row, version) for both in zip(brokers, worlds, strict=True))
        if kafkas is not None and not sees_topic(user):
            kafkas = kafkas._replace(codes=hidden(kafkas.codes, row, version))
        if ours != kafkas:
            different.append((row.api.name, version, kafkas, ours))
    assert different == []


# --- operations that ACLs deny

OPEN_TO_ALL = {
    "createDelegationToken", "describeCluster", "describeDelegationToken", "describeFeatures", "describeReplicaLogDirs",
    "expireDelegationToken", "listConsumerGroups", "listGroups", "listTopics", "listTransactions",
    "renewDelegationToken", "uncalled",
}  # fmt: skip
"""What a user without any right may call; lists have nothing in them."""


@pytest.fixture(scope="module")
def denied(
    brokers: tuple[Secured, Secured],
    worlds: tuple[World, World],
    tools: ToolHost,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, dict[str, str]]:
    """The results of every operation, by broker and user: ``kafka eve``."""
    file = tmp_path_factory.mktemp("denied") / "clients"
    settings = {
        f"{broker.name} {user}": broker.user("SASL_PLAINTEXT", "PLAIN", user)
        for broker in brokers
        for user in ("eve", "describer")
    }
    rows = (
        "\t".join([name, *(f"{key}={value}" for key, value in values.items())]) for name, values in settings.items()
    )
    file.write_text("".join(f"{row}\n" for row in rows))
    done = tools.run("DeniedCalls", file, timeout_s=TIMEOUT_S)
    assert done.status == 0, done.stderr
    results: dict[str, dict[str, str]] = {}
    for part in done.stdout.removeprefix("[").split("\n["):
        name, *lines = part.splitlines()
        results[name.removesuffix("]")] = dict(line.split("=", 1) for line in lines)
    return results


def one_error(results: dict[str, str]) -> dict[str, str]:
    """Without the difference that a consumer makes by chance, where both group and topic are
    denied.
    """
    return {
        call: re.sub("Group|Topic", "", result) if call.startswith("poll") else result
        for call, result in results.items()
    }


@pytest.mark.parametrize("user", ["eve", "describer"])
def test_every_operation_is_denied_as_by_kafka(denied: dict[str, dict[str, str]], user: str) -> None:
    assert one_error(denied[f"kqueue {user}"]) == one_error(denied[f"kafka {user}"])


def test_a_user_without_rights_may_call_little(denied: dict[str, dict[str, str]]) -> None:
    results = denied["kqueue eve"]
    assert {call for call, result in results.items() if "AuthorizationException" not in result} == OPEN_TO_ALL
    assert results["uncalled"] == ""


# --- tools


@pytest.mark.parametrize("scenario", TOOL_SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_tools_do_what_they_do_with_kafka(
    brokers: tuple[Secured, Secured],
    worlds: tuple[World, World],
    tools: ToolHost,
    tmp_path: Path,
    scenario: Callable[[Tools], None],
) -> None:
    kafkas, ours = (Tools(tools, broker, tmp_path) for broker in brokers)
    for one in (kafkas, ours):
        scenario(one)
    assert ours.said == kafkas.said


# --- requests about ACLs; at the end, because they delete all ACLs


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_answers_about_acls_are_kafkas(
    brokers: tuple[Secured, Secured], worlds: tuple[World, World], scenario: Scenario
) -> None:
    kafkas, ours = (answers(broker.bootstrap(), scenario) for broker in brokers)
    assert ours == kafkas
