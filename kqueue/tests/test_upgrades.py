"""Today's broker opens the data folder of each version, and serves all that its own broker did."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

import kqueue
from kqueue.base.clock import OffsetClock, wall_ms
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.config.client_security import ClientSecurity
from kqueue.records.builder import BatchBuilder
from kqueue.security.protocols import SecurityProtocol
from kqueue.security.sasl.login import SaslLogin
from kqueue.tests import released
from kqueue.tests.released.contents import (
    GROUP,
    MECHANISM,
    PASSWORD,
    TRANSACTIONAL_ID,
    TXN,
    USER,
    describe,
    idempotent_batch,
)
from kqueue.tests.source_tree import ROOT

IDEMPOTENT = TopicPartition("idempotent", 0)

every_folder = pytest.mark.parametrize("name", released.names())


class _PastClock(OffsetClock):
    """A clock that ran on since the folder was made: what is in it has not expired."""

    def __init__(self, ago_ms: int) -> None:
        super().__init__()
        self._ago_ms = ago_ms

    def wall_ms(self) -> int:
        return super().wall_ms() - self._ago_ms


def made_ms(contents: dict[str, Any]) -> int:
    """Return when a folder was made."""
    return int(contents["records"]["stamped-0"]["records"][-1][1])


@contextlib.contextmanager
def serving(monkeypatch: pytest.MonkeyPatch, contents: dict[str, Any], data: Path) -> Iterator[kqueue.Broker]:
    """Serve a folder at the time at which it was made."""
    ago_ms = wall_ms() - made_ms(contents) - 60_000
    monkeypatch.setattr("kqueue.embedded.broker.OffsetClock", lambda: _PastClock(ago_ms))
    settings = {
        "node.id": 1,
        "listeners": "PLAIN://127.0.0.1:0,SCRAM://127.0.0.1:0",
        "listener.security.protocol.map": "PLAIN:PLAINTEXT,SCRAM:SASL_PLAINTEXT",
        "inter.broker.listener.name": "PLAIN",
        "sasl.enabled.mechanisms": MECHANISM,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:ann",
    }
    with kqueue.Broker(data, settings=settings) as broker:
        yield broker


@every_folder
def test_records_topics_groups_settings_and_users_are_those_of_the_older_broker(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, expected = released.unpack(name, tmp_path), released.served(name)
    for _ in range(2):  # the second start reads what the first one has upgraded
        with serving(monkeypatch, expected, data) as broker, Client(broker.bootstrap) as client:
            contents = describe(client)
            assert {section: contents[section] for section in expected} == expected


@every_folder
def test_producers_transactions_and_groups_of_the_older_broker_go_on(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, expected = released.unpack(name, tmp_path), released.served(name)
    with serving(monkeypatch, expected, data) as broker, Client(broker.bootstrap) as client:
        for _, timestamp, *_, producer_id, epoch, _, _ in expected["records"]["idempotent-0"]["records"]:
            again = client.produce({IDEMPOTENT: idempotent_batch(producer_id, epoch, timestamp)})
            assert again[IDEMPOTENT].base_offset == 0, "a duplicate"
        producer = client.transactions.init(TRANSACTIONAL_ID, 60_000)
        if records := expected["records"]["txn-0"]["records"]:
            _, _, _, _, _, producer_id, epoch, _, _ = records[-1]
            assert (producer.id, producer.epoch > epoch) == (producer_id, True)
        client.transactions.add_partitions(producer, [TXN])
        builder = BatchBuilder(producer_id=producer.id, epoch=producer.epoch, base_sequence=0, transactional=True)
        builder.append(made_ms(expected) + 1, b"txn", b"new")
        client.produce({TXN: builder.build()}, transactional_id=TRANSACTIONAL_ID)
        client.transactions.end(producer, committed=True)
        client.commit(GROUP, {TopicPartition("plain", 0): 9})
    with serving(monkeypatch, expected, data) as broker, Client(broker.bootstrap) as client:
        now = describe(client)
        assert now["records"]["idempotent-0"] == expected["records"]["idempotent-0"]
        assert now["records"]["txn-0"]["stable"] == expected["records"]["txn-0"]["end"] + 2
        assert now["groups"][GROUP]["plain-0"][0] == 9
        assert now["groups"][GROUP]["plain-1"] == expected["groups"][GROUP]["plain-1"]


@pytest.mark.parametrize("name", [name for name in released.names() if "users" in released.served(name)])
def test_users_of_the_older_broker_log_in(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = released.unpack(name, tmp_path)

    def topics(password: str) -> Collection[str]:
        host, port = broker._server.broker.identity.endpoints("SCRAM")
        security = ClientSecurity(SecurityProtocol.SASL_PLAINTEXT, None, SaslLogin(MECHANISM, USER, password))
        with Client(f"{host}:{port}", security=security) as client:
            return client.metadata(["plain"]).topics

    with serving(monkeypatch, released.served(name), data) as broker:
        assert "plain" in topics(PASSWORD)
        with pytest.raises(ClientError, match="(?i)auth"):
            topics("another")


def test_each_version_with_a_day_of_release_has_a_folder() -> None:
    versions = re.findall(r"^## (\S+), \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert set(versions) <= set(released.names())
    assert set(released.BEFORE_RELEASES) < set(released.names())
