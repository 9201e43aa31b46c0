from __future__ import annotations

import contextlib
import itertools
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kqueue import Broker
from kqueue.base.errors import ListenFailed
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import BrokerRefused, BrokerUnreachable, DeadlinePassed
from kqueue.config.http_client import HttpOptions
from kqueue.records.builder import BatchBuilder
from kqueue.schema_registry.election.election_member import ElectionTimes
from kqueue.schema_registry.options import RegistryOptions, client_options
from kqueue.schema_registry.schema_log import StoreUnavailable
from kqueue.schema_registry.server import RegistryServer
from kqueue.testing import faults
from kqueue.tests.schema_registry.http_calls import INT, LONG, Answered, call
from kqueue.tests.schema_registry.running import leader_and_other
from kqueue.tests.waits import eventually

Start = Callable[..., RegistryServer]
KARAPACE = (
    (
        b'{"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}',
        b'{"subject":"orders-value","version":1,"id":7,"schema":"\\"int\\"","deleted":false}',
    ),
    (b'{"keytype":"CONFIG","subject":null,"magic":0}', b'{"compatibilityLevel":"FULL"}'),
    (b"no key of a registry", b"\xff"),
)
"""Records as Karapace writes them, and one that nobody understands."""
TIMES = ElectionTimes(session_ms=10_000, heartbeat_ms=20, rebalance_ms=10_000)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
    }
    with Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def topic() -> str:
    return f"_schemas{next(_numbers)}"


@pytest.fixture
def start(broker: Broker, topic: str) -> Iterator[Start]:
    """Start a registry of the test's own topic and group; it is closed at the end."""
    with contextlib.ExitStack() as stack:

        def begin(bootstrap: str = broker.bootstrap, **given: Any) -> RegistryServer:
            options: dict[str, Any] = {"topic": topic, "group": topic, "port": 0, "election_times": TIMES, **given}
            server = RegistryServer(RegistryOptions(client=client_options(bootstrap), **options))
            stack.callback(server.close)
            return server.start()

        yield begin


def write(broker: Broker, topic: str, *records: tuple[bytes, bytes | None]) -> None:
    """Append records as another registry does."""
    builder = BatchBuilder(codec="gzip")
    for key, value in records:
        builder.append(1_700_000_000_000, key, value)
    with Client(broker.bootstrap) as client:
        client.produce({TopicPartition(topic, 0): builder.build()})


@pytest.mark.parametrize("elects", [False, True])
def test_a_schema_is_registered_and_found_after_a_restart(start: Start, elects: bool) -> None:
    server = start(elects=elects)
    assert call(f"{server.url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
    server.close()
    server.close()
    again = start(elects=elects)
    assert call(f"{again.url}/schemas/ids/1") == (200, INT)
    assert call(f"{again.url}/subjects/b/versions", "POST", LONG) == (200, {"id": 2})


def test_records_that_another_registry_wrote_are_served(broker: Broker, topic: str, start: Start) -> None:
    broker.create_topic(topic, 1, cleanup_policy="compact")
    write(broker, topic, *KARAPACE)
    server = start()
    assert call(f"{server.url}/schemas/ids/7") == (200, INT)
    assert call(f"{server.url}/config") == (200, {"compatibilityLevel": "FULL"})
    assert call(f"{server.url}/subjects/b/versions", "POST", LONG) == (200, {"id": 8})
    write(broker, topic, (KARAPACE[0][0].replace(b"orders", b"later"), KARAPACE[0][1].replace(b"orders", b"later")))
    eventually(lambda: "later-value" in call(f"{server.url}/subjects").body, "the record")


def test_two_registries_have_one_writer_and_answer_alike(start: Start) -> None:
    servers = [start(), start()]
    for number, server in enumerate(servers):
        schema = {"schema": f'{{"type":"fixed","name":"f{number}","size":{number + 1}}}'}
        assert call(f"{server.url}/subjects/s{number}/versions", "POST", schema) == (200, {"id": number + 1})
    for server in servers:
        assert call(f"{server.url}/subjects").body == ["s0", "s1"]
    leader, other = leader_and_other(servers)
    assert [leader.is_leader, other.is_leader] == [True, False]


def test_another_registry_takes_over_when_the_writer_ends_between_two_heartbeats(start: Start) -> None:
    servers = [start(), start()]
    call(f"{servers[0].url}/subjects/a/versions", "POST", INT)
    leader, other = leader_and_other(servers)
    leader.close()
    assert call(f"{other.url}/subjects/b/versions", "POST", LONG) == (200, {"id": 2})
    assert other.is_leader


def test_only_one_of_many_registrations_at_once_gets_each_id(start: Start) -> None:
    servers = [start(), start()]
    answers: list[Answered] = []

    def register(server: RegistryServer, number: int) -> None:
        schema = {"schema": f'{{"type":"fixed","name":"f","size":{number + 1}}}'}
        answers.append(call(f"{server.url}/subjects/s{number}/versions", "POST", schema))

    threads = [threading.Thread(target=register, args=(servers[number % 2], number)) for number in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer for answer in answers if answer.status != 200] == []
    assert sorted(answer.body["id"] for answer in answers) == list(range(1, 11))


def test_an_append_whose_answer_is_lost_is_an_error_and_the_schema_is_registered_once(
    broker: Broker, topic: str, start: Start
) -> None:
    server = start(elects=False)
    with faults(broker) as faulty:
        fault = faulty.drop_reply("Produce", times=None, topic=topic)
        server._log._client.options = client_options(broker.bootstrap, timeout_ms=200)
        server._log._client._router.options = server._log._client.options
        answer = call(f"{server.url}/subjects/a/versions", "POST", INT)
        assert (answer.status, answer.body["error_code"]) == (500, 50001)
        fault.cancel()
    eventually(lambda: server.is_leader, "the next claim")
    assert call(f"{server.url}/subjects/a/versions", "POST", INT) == (200, {"id": 1})
    assert call(f"{server.url}/subjects/a/versions") == (200, [1])


def test_without_brokers_reads_go_on_and_changes_are_refused(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as own:
        quick = client_options(own.bootstrap, timeout_ms=200, connect_timeout_ms=100)
        server = RegistryServer(RegistryOptions(client=quick, port=0, elects=False)).start()
        call(f"{server.url}/subjects/a/versions", "POST", INT)
    assert call(f"{server.url}/schemas/ids/1") == (200, INT)
    assert call(f"{server.url}/subjects/a/versions", "POST", INT) == (200, {"id": 1}), "nothing has to be written"
    answer = call(f"{server.url}/subjects/b/versions", "POST", LONG)
    assert (answer.status, answer.body["error_code"]) == (500, 50001)
    eventually(lambda: "changes are refused" in caplog.text or "no schema is registered" in caplog.text, "the line")
    server.close()


def test_after_its_topic_was_deleted_a_registry_serves_what_it_has_and_refuses_changes(
    broker: Broker, topic: str, start: Start
) -> None:
    server = start(elects=False)
    call(f"{server.url}/subjects/a/versions", "POST", INT)
    broker.topics[topic].delete()
    broker.create_topic(topic, 1, cleanup_policy="compact")
    eventually(lambda: server._reader.failure, "the end of the reading")
    assert call(f"{server.url}/schemas/ids/1") == (200, INT)
    answer = call(f"{server.url}/subjects/b/versions", "POST", LONG)
    assert (answer.status, answer.body["error_code"]) == (500, 50001)
    assert "start the registry again" in answer.body["message"]


def test_users_of_a_file_log_in(start: Start, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann=secret\n")
    server = start(users_file=users)
    assert call(f"{server.url}/subjects").status == 401
    assert call(f"{server.url}/metrics").status == 401
    assert call(f"{server.url}/subjects", user="ann:wrong").body["error_code"] == 401
    assert call(f"{server.url}/subjects", user="ann:secret") == (200, [])
    assert call(f"{server.url}/metrics", user="ann:secret").status == 200


def test_a_forwarded_change_is_that_of_its_user(start: Start, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann=secret\n")
    for server in (start(users_file=users), start(users_file=users)):
        assert call(f"{server.url}/subjects/a/versions", "POST", INT, user="ann:secret") == (200, {"id": 1})
        assert call(f"{server.url}/subjects/a/versions", "POST", LONG).status == 401


def test_the_acls_of_topics_decide_about_subjects(topic: str) -> None:
    acls = [
        "User:ann allow read,write topic:orders",
        "User:bob allow read topic:orders",
        "User:bob allow delete topic:other",
        "User:registry allow all topic:*",
        "User:registry allow all cluster",
    ]
    users = {"registry": "secret", "ann": "secret", "bob": "secret"}
    with Broker(users=users, acls=acls) as secured, Client(secured.bootstrap):
        from kqueue.config.client_security import ClientSecurity

        security = ClientSecurity.of(
            {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "registry",
                "sasl.password": "secret",
            }
        )
        options = RegistryOptions(
            client=client_options(secured.bootstrap, security), port=0, elects=False, login="PLAIN", uses_acls=True
        )
        server = RegistryServer(options).start()
        url = f"{server.url}/subjects"
        assert call(f"{url}/orders-value/versions", "POST", INT, user="ann:secret") == (200, {"id": 1})
        denied = call(f"{url}/orders-value/versions", "POST", LONG, user="bob:secret")
        assert (denied.status, denied.body["error_code"]) == (403, 40301)
        assert call(f"{url}/other-value/versions", "POST", INT, user="registry:secret").status == 200
        assert call(url, user="ann:secret").body == ["orders-value"]
        assert call(url, user="registry:secret").body == ["orders-value", "other-value"]
        assert call(f"{url}/orders-value", "DELETE", user="ann:secret").status == 403
        assert call(f"{url}/other-value", "DELETE", user="bob:secret") == (200, [1])
        assert call(f"{server.url}/config", "PUT", {"compatibility": "NONE"}, user="ann:secret").status == 403
        assert call(url, user="ann:wrong").status == 401
        server.close()


def test_a_topic_that_can_not_be_used_ends_the_start_and_frees_the_port(
    broker: Broker, topic: str, start: Start
) -> None:
    broker.create_topic(topic, 2)
    with pytest.raises(StoreUnavailable, match="has 2 partitions"):
        start()
    assert [thread.name for thread in threading.enumerate() if "registry" in thread.name] == []


def test_an_address_in_use_is_a_sentence(start: Start) -> None:
    server = start()
    with pytest.raises(ListenFailed, match=f"can't listen on 127.0.0.1:{server.port}"):
        start(port=server.port)


def test_no_broker_is_an_error_at_the_start() -> None:
    options = RegistryOptions(client=client_options("127.0.0.1:1", timeout_ms=50), port=0)
    with pytest.raises((BrokerUnreachable, DeadlinePassed)):
        RegistryServer(options)


def test_a_broker_without_acls_is_an_error_where_they_shall_decide(start: Start, tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("ann=secret\n")
    with pytest.raises(BrokerRefused, match="SECURITY_DISABLED"):
        start(users_file=users, uses_acls=True)


def test_metadata_names_the_kafka_cluster_and_the_group(broker: Broker, topic: str, start: Start) -> None:
    with Client(broker.bootstrap) as client:
        cluster_id = client.metadata([]).cluster_id
    clusters = call(f"{start().url}/v1/metadata/id").body["scope"]["clusters"]
    assert clusters == {"kafka-cluster": cluster_id, "schema-registry-cluster": topic}


def test_the_start_is_one_line_of_the_log(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "kqueue.schema_registry"):
        server = start(elects=False)
    assert f"the schema registry serves {server.url} from topic" in caplog.text


def test_https_is_served_and_forwarded_to(start: Start, tmp_path: Path) -> None:
    from kqueue.cli.health import trusting
    from kqueue.embedded.development_certificates import DevelopmentCertificates

    certificates = DevelopmentCertificates()
    authority = str(certificates.authority_file)
    pem = certificates.user_file("localhost")
    options = HttpOptions(1_000_000, 30.0, trusting(authority))
    given = {"tls_cert": pem, "tls_key": pem, "leader_ca": authority, "host": "localhost"}
    for server in (start(**given), start(**given)):
        assert server.url.startswith("https://localhost:")
        answer = call(f"{server.url}/subjects/a/versions", "POST", INT, options=options)
        assert answer == (200, {"id": 1})
