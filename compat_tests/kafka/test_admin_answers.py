"""The same requests to Kafka and to kqueue have the same answers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from compat_tests.kafka.acl_scenarios import no_acls_without_an_authorizer
from compat_tests.kafka.admin_scenarios import NODE, SCENARIOS, Ask, Scenario
from compat_tests.kafka.config_scenarios import SCENARIOS as CONFIG_SCENARIOS
from compat_tests.kafka.node import Kafka
from compat_tests.kafka.serving import serving
from compat_tests.kafka.share_scenarios import SCENARIOS as SHARE_SCENARIOS
from compat_tests.kafka.transaction_scenarios import SCENARIOS as TRANSACTION_SCENARIOS
from kqueue.schema import decode, encode
from kqueue.schema.structs import schema_of
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.headers import read_response_header, request_header

WAIT_S = 30
OWN_SETTINGS = ("kqueue.", "min.insync.replicas", "flush.messages", "file.delete.delay.ms", "retention.ms")
"""Settings in answers that are not compared: kqueue's own, the one that Kafka 4.3 sets for the
whole cluster when it starts, and those that are set for these tests.
"""


@contextmanager
def asking(bootstrap: str) -> Iterator[Ask]:
    """A connection on which requests are sent one by one."""
    host, port = bootstrap.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=WAIT_S) as sock, sock.makefile("rb") as stream:

        def ask(request: Any, version: int) -> Any:
            api = BY_MODULE[type(request).__module__.rpartition(".")[2]]
            frame = request_header(api.key, version, 1, "t") + encode(request, version)
            sock.sendall(len(frame).to_bytes(4, "big") + frame)
            size = stream.read(4)
            assert size, f"the connection was closed by {api.name} version {version}: {request}"
            answer = memoryview(stream.read(int.from_bytes(size, "big")))
            return decode(api.response_class, version, answer[read_response_header(answer, api.key, version)[1] :])

        yield ask


def comparable(answer: Any) -> Any:
    """An answer without what differs from broker to broker: ids, and the words of messages."""
    if isinstance(answer, tuple):
        return tuple(comparable(value) for value in answer)
    if isinstance(answer, list):
        rows = [row for row in answer if not str(getattr(row, "name", "")).startswith(OWN_SETTINGS)]
        return [comparable(row) for row in rows]
    if not hasattr(answer, "__schema__"):
        return answer
    values = {field.name: comparable(getattr(answer, field.name)) for field in schema_of(type(answer)).fields}
    if "topic_id" in values:
        values["topic_id"] = values["topic_id"] != bytes(16)
    values.pop("error_message", None)
    return type(answer).__name__, values


def answers(bootstrap: str, scenario: Scenario) -> list[Any]:
    with asking(bootstrap) as ask:
        return [comparable(answer) for answer in scenario(ask)]


@pytest.fixture(scope="module")
def brokers(formatted: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The addresses of a Kafka and a kqueue, both without topics."""
    node = Kafka(tmp_path_factory.mktemp("admin") / "kafka").copy_from(formatted)
    with node, serving(tmp_path_factory.mktemp("kqueue"), node_id=NODE) as broker:
        yield node.bootstrap, broker.bootstrap


@pytest.mark.parametrize(
    "scenario",
    [*SCENARIOS, *CONFIG_SCENARIOS, *TRANSACTION_SCENARIOS, *SHARE_SCENARIOS, no_acls_without_an_authorizer],
    ids=lambda scenario: scenario.__name__,
)
def test_the_answers_are_kafkas(brokers: tuple[str, str], scenario: Scenario) -> None:
    kafkas, ours = (answers(bootstrap, scenario) for bootstrap in brokers)
    assert ours == kafkas
