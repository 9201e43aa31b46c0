from __future__ import annotations

import pytest

from kqueue import Broker
from kqueue.client import Client, LogDir, NewTopic, PartitionMetadata, Reassignment, TopicMetadata, TopicPartition
from kqueue.client.metadata import BrokerEndpoint, ClusterMetadata
from kqueue.console.pages.reassignments import MoveProgress, _progress, parse_replicas
from kqueue.tests.console.browser import Browser, words

ORDERS = TopicPartition("orders", 0)


def test_nothing_that_moves_is_said(browser: Browser) -> None:
    assert "No partition is being moved." in browser.text("/reassignments")
    assert "Move a partition" not in browser.text("/reassignments")


class _Moving:
    """A cluster in which broker 2 gets a replica of orders-0."""

    cluster: object

    def __init__(self, held: int) -> None:
        self.cluster = self
        self._held = held

    def metadata(self, topics: object) -> ClusterMetadata:
        partition = PartitionMetadata(1, 0, (1, 2), (1,))
        brokers = {1: BrokerEndpoint(1, "a", 1), 2: BrokerEndpoint(2, "b", 1)}
        return ClusterMetadata(brokers, {"orders": TopicMetadata("orders", bytes(16), {0: partition})})

    def log_dirs(self, node_id: int, partitions: object) -> list[LogDir]:
        return [LogDir("/data", 0, {ORDERS: 1_000 if node_id == 1 else self._held}, {})]


@pytest.mark.parametrize(("held", "percent"), [(0, 0), (250, 25), (1_000, 100), (2_000, 100)])
def test_the_progress_is_the_part_that_the_new_replica_has(held: int, percent: int) -> None:
    [row] = _progress(_Moving(held), {ORDERS: Reassignment((1, 2), (2,), (1,))})
    assert row.percent == percent


def test_the_progress_of_an_empty_or_unknown_log_is_no_division() -> None:
    assert MoveProgress(ORDERS, (1,), (2,), (), 0, 0).percent == 100
    assert MoveProgress(ORDERS, (1,), (2,), (), 0, None).percent is None


def test_a_move_to_a_broker_that_does_not_exist_is_refused(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("moved", 1)])
    response = editor.submit("/reassignments/begin", {"topic": "moved", "partition": "0", "replicas": "1 7"})
    assert response.status_code == 400
    assert 'value="moved"' in response.text
    for fields in (
        {"topic": "no-such", "partition": "0", "replicas": "1"},
        {"topic": "moved", "partition": "x", "replicas": "1"},
    ):
        assert editor.submit("/reassignments/begin", fields).status_code in (400, 404)


def test_a_move_to_where_it_is_and_an_election_do_nothing(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("moved-b", 1)])
    response = editor.submit("/reassignments/begin", {"topic": "moved-b", "partition": "0", "replicas": "1"})
    assert "moved-b-0 moves to 1." in response.text
    assert "Elected leaders of 0 partitions." in editor.submit("/reassignments/elect").text


def test_a_move_that_does_not_run_cannot_be_cancelled(editor: Browser, client: Client) -> None:
    client.create_topics([NewTopic("moved-c", 1)])
    response = editor.submit("/reassignments/cancel", {"topic": "moved-c", "partition": "0"})
    assert response.status_code in (400, 404)
    assert "Traceback" not in words(response.text)


@pytest.mark.parametrize("text", ["", " , ", "1,1", "a", "1;2", "-1", "9" * 20, ",".join(map(str, range(200)))])
def test_replicas_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="replicas"):
        parse_replicas(text)


def test_replicas_are_separated_by_commas_or_spaces(broker: Broker) -> None:
    assert parse_replicas("3, 1 2") == [3, 1, 2]
