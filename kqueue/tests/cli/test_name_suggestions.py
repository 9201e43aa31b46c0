from __future__ import annotations

import pytest

import kqueue
from kqueue.cli import name_suggestions
from kqueue.cli.name_suggestions import no_group, no_topic


def test_the_nearest_name_or_where_to_find_names() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("orders", 1)
        with kqueue.client.Client(broker.bootstrap) as client:
            client.commit("billing", {("orders", 0): 0})
        assert no_topic(broker.bootstrap, "ordres") == "there is no topic 'ordres'; did you mean 'orders'?"
        assert no_group(broker.bootstrap, "biling") == "there is no group 'biling'; did you mean 'billing'?"
        assert no_topic(broker.bootstrap, "xyz") == "there is no topic 'xyz'; `kqueue topics list` shows all topics"


def test_a_broker_that_is_gone_suggests_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(name_suggestions, "TIMEOUT_MS", 50)
    assert no_group("127.0.0.1:1", "x") == "there is no group 'x'; `kqueue groups list` shows all groups"
