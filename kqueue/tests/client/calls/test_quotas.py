from __future__ import annotations

from collections.abc import Iterator

import pytest

import kqueue
from kqueue.client import Client
from kqueue.client.calls.quotas import ANY, DEFAULT, EXACT, QuotaAlteration, QuotaEntry, QuotaMatch
from kqueue.client.errors import BrokerRefused

ANN = {"user": "ann"}
EVERY_APP = {"client-id": None}


@pytest.fixture
def client() -> Iterator[Client]:
    with kqueue.Broker() as broker, Client(broker.bootstrap) as client:
        yield client


def test_quotas_are_altered_and_described(client: Client) -> None:
    outcomes = client.cluster.alter_quotas(
        [
            QuotaAlteration(ANN, {"producer_byte_rate": 5.0, "request_percentage": 1.5}),
            QuotaAlteration(EVERY_APP, {"consumer_byte_rate": 7.0}),
            QuotaAlteration({"ip": "nowhere"}, {"connection_creation_rate": 1.0}),
        ]
    )
    assert [one.code for one in outcomes] == [0, 0, 42]
    assert "not a valid IP" in (outcomes[2].message or "")
    of_ann = QuotaEntry(ANN, {"producer_byte_rate": 5.0, "request_percentage": 1.5})
    of_apps = QuotaEntry(EVERY_APP, {"consumer_byte_rate": 7.0})
    assert client.cluster.describe_quotas() == [of_ann, of_apps]
    assert client.cluster.describe_quotas([QuotaMatch("user", EXACT, "ann")]) == [of_ann]
    assert client.cluster.describe_quotas([QuotaMatch("user", DEFAULT)]) == []
    assert client.cluster.describe_quotas([QuotaMatch("client-id", ANY)], strict=True) == [of_apps]
    client.cluster.alter_quotas([QuotaAlteration(ANN, {"producer_byte_rate": None})])
    client.cluster.alter_quotas([QuotaAlteration(ANN, {"request_percentage": None})], validate_only=True)
    assert client.cluster.describe_quotas([QuotaMatch("user", ANY)]) == [QuotaEntry(ANN, {"request_percentage": 1.5})]


def test_a_filter_that_cannot_be_is_refused(client: Client) -> None:
    with pytest.raises(BrokerRefused, match="an exact match needs a name"):
        client.cluster.describe_quotas([QuotaMatch("user", EXACT)])
