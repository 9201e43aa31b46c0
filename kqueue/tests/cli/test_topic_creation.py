"""Commands report a topic created from a mistyped name, and suggest the intended name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import Result

import kqueue
from kqueue.cli import topic_creation
from kqueue.cli.topic_creation import TopicCreationNotice

Kq = Callable[..., Result]
CREATED = "there was no topic 'ordres': the broker created it with 2 partitions; did you mean 'orders'?\n"


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker(num_partitions=2) as broker:
        broker.create_topic("orders")
        yield broker


def test_produce_says_that_the_broker_made_the_topic(kq: Kq, broker: kqueue.Broker) -> None:
    result = kq("produce", "ordres", "-b", broker.bootstrap, input="one\n")
    assert result.stderr.startswith(CREATED)
    again = kq("produce", "ordres", "-b", broker.bootstrap, input="two\n")
    assert "created" not in again.stderr
    broker.assert_produced("ordres", ["one", "two"])


def test_so_does_collect(kq: Kq, broker: kqueue.Broker, tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("one\n")
    state = str(tmp_path / "state.json")
    result = kq("collect", "--once", "-t", "ordres", "--state", state, "-b", broker.bootstrap, str(tmp_path / "a.log"))
    assert CREATED in result.stderr


def test_name_is_suggested_where_no_topic_is_created(kq: Kq) -> None:
    with kqueue.Broker(auto_create_topics_enable=False) as broker:
        broker.create_topic("orders")
        watch = TopicCreationNotice(broker.bootstrap, "ordres")
        assert (watch.is_missing, watch.nearest) == (True, "; did you mean 'orders'?")
        assert "ordres" not in broker.topics


def test_nothing_is_reported_without_a_response(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_creation, "ANSWER_TIMEOUT_MS", 50)
    watch = TopicCreationNotice("127.0.0.1:1", "orders")
    assert (watch.is_missing, watch.nearest) == (False, "")
