from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.client.errors import ClientError
from kqueue.spark.errors import OptionError, StagingLost
from kqueue.spark.sink.batch_commit import commit
from kqueue.spark.sink.journal import PREFIX
from kqueue.spark.sink.options import SinkOptions
from kqueue.spark.sink.staging_cleanup import StagedQuery, forget, query_id_of, staged_queries, unused_since
from kqueue.spark.sink.write_task import BatchIdentity, stage_rows
from kqueue.testing import faults
from kqueue.tests.spark.sink.helpers import rows_of, values_in

ROWS = [f"row {number:03}" for number in range(60)]


@pytest.fixture
def client(broker: kqueue.Broker) -> Iterator[Client]:
    with Client(broker.bootstrap) as sink_client:
        yield sink_client


def write(options: SinkOptions, client: Client, query: str, batch_id: int = 0) -> None:
    commit(client, query, batch_id, stage_rows(options, BatchIdentity(query, batch_id, 0), [rows_of(ROWS)]).staged)


def half_copied(broker: kqueue.Broker, options: SinkOptions, client: Client, query: str) -> None:
    staged = stage_rows(options, BatchIdentity(query, 0, 0), [rows_of(ROWS)]).staged
    with faults(broker) as chaos:
        chaos.fail("Produce", "POLICY_VIOLATION", topic="out", after=2)
        with pytest.raises(ClientError):
            commit(client, query, 0, staged)


def test_staged_queries_are_listed_and_other_topics_left_out(
    broker: kqueue.Broker, options: SinkOptions, client: Client
) -> None:
    assert staged_queries(client) == []
    write(options, client, "a-done")
    half_copied(broker, options, client, "b.half")
    stage_rows(options, BatchIdentity("c-staged", 0, 0), [rows_of(ROWS)])
    broker.create_topic(PREFIX + "not-ours")
    queries = staged_queries(client)
    assert [(candidate.query_id, candidate.done, candidate.unfinished, candidate.staged) for candidate in queries] == [
        ("a-done", 0, None, 0),
        ("b.half", -1, 0, len(ROWS)),
        ("c-staged", -1, None, len(ROWS)),
    ]
    now_ms = max(candidate.last_ms or 0 for candidate in queries)
    assert all(candidate.last_ms is not None and now_ms - 60_000 < candidate.last_ms for candidate in queries)


def test_forgotten_query_can_start_again(broker: kqueue.Broker, options: SinkOptions, client: Client) -> None:
    write(options, client, "q", 7)
    forget(client, "q")
    assert staged_queries(client) == []
    write(options, client, "q", 8)
    assert values_in(broker, "out") == sorted(ROWS * 2)


def test_half_copied_batch_is_finished_before_its_query_is_forgotten(
    broker: kqueue.Broker, options: SinkOptions, client: Client
) -> None:
    half_copied(broker, options, client, "q")
    forget(client, "q")
    assert values_in(broker, "out") == ROWS
    assert staged_queries(client) == []


def test_query_with_lost_records_stays_unless_it_is_given_up(
    broker: kqueue.Broker, options: SinkOptions, client: Client
) -> None:
    half_copied(broker, options, client, "q")
    client.delete_records({TopicPartition(PREFIX + "q", staging_partition): -1 for staging_partition in (1, 2)})
    with pytest.raises(StagingLost, match="is gone, by retention or by hand"):
        forget(client, "q")
    assert len(staged_queries(client)) == 1
    forget(client, "q", finish=False)
    assert staged_queries(client) == []


def test_topic_without_a_journal_is_left_alone(broker: kqueue.Broker, client: Client) -> None:
    broker.create_topic(PREFIX + "mine")
    with pytest.raises(StagingLost, match="is no staging topic"):
        forget(client, "mine")
    broker.create_topic(PREFIX + "notes", 2)
    broker.topics[PREFIX + "notes"].produce(b"not a journal", partition=0)
    (queries,) = staged_queries(client)
    assert "what is no JSON" in queries.unreadable
    assert unused_since([queries], 2**60) == []
    with pytest.raises(StagingLost, match="what is no JSON"):
        forget(client, "notes")
    assert set(client.metadata().topics) >= {PREFIX + "mine", PREFIX + "notes"}


def test_the_nearest_id_is_offered(options: SinkOptions, client: Client) -> None:
    write(options, client, "nightly")
    with pytest.raises(OptionError, match="nothing is kept for the query 'nihgtly'; did you mean 'nightly'"):
        forget(client, "nihgtly")


def test_queries_unused_since_a_time_are_selected() -> None:
    old, new, never = (
        StagedQuery(name, last_ms, 3, None, 0) for name, last_ms in (("old", 10), ("new", 20), ("never", None))
    )
    assert unused_since([old, new, never], 20) == [old]


def test_query_id_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(json.dumps({"id": "3f1c"}))
    assert query_id_of(str(tmp_path)) == "3f1c"
    with pytest.raises(OptionError, match="is no checkpoint of a streaming query"):
        query_id_of(str(tmp_path / "gone"))
