from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import kqueue
from kqueue.client import EARLIEST, LATEST, Client, NewTopic, TopicPartition
from kqueue.client.deadline import Deadline
from kqueue.client.errors import BadAnswer, BrokerRefused, BrokerUnreachable, ConnectionLost, DeadlinePassed
from kqueue.records.batch import iter_batches
from kqueue.schema import decode
from kqueue.testing import faults
from kqueue.testing.fault_injection import Faults
from kqueue.tests.client.serving import ORDERS, QUICK, Impostor, answer_of, batch, read_all, values_of
from kqueue.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kqueue.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

NOT_LEADER = 6
SIX = [TopicPartition("t", index) for index in range(6)]


@pytest.fixture
def broker() -> Iterator[kqueue.Broker]:
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        broker.create_topic("others", 2)
        yield broker


@pytest.fixture
def trouble(broker: kqueue.Broker) -> Iterator[Faults]:
    with faults(broker) as produced:
        yield produced


@pytest.fixture
def client(broker: kqueue.Broker) -> Iterator[Client]:
    with Client(broker.bootstrap, **QUICK) as client:
        client.produce({ORDERS: batch([b"a", b"b"])})
        yield client


def request_names(broker: kqueue.Broker, *apis: str) -> list[str]:
    return [one.api for one in broker.requests if one.api in apis]


# --- the table at work


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "UNKNOWN_LEADER_EPOCH", "UNKNOWN_TOPIC_ID"]
)
def test_a_leader_in_doubt_is_asked_for_again(
    broker: kqueue.Broker, client: Client, trouble: Faults, error: str
) -> None:
    with Client(broker.bootstrap, **{**QUICK, "missing_topic_ms": 10_000}) as patient:
        patient.offsets({ORDERS: LATEST})
        broker.requests.clear()
        trouble.fail("Fetch", error, times=2, topic="orders")
        assert values_of(patient.fetch({ORDERS: 0})[ORDERS]) == [b"a", b"b"]
    assert request_names(broker, "Fetch", "Metadata") == ["Fetch", "Metadata", "Fetch", "Metadata", "Fetch"]


def test_a_broker_that_is_busy_is_asked_again_without_new_metadata(
    broker: kqueue.Broker, client: Client, trouble: Faults
) -> None:
    broker.requests.clear()
    trouble.fail("ListOffsets", "OFFSET_NOT_AVAILABLE", times=2)
    assert client.offsets({ORDERS: LATEST})[ORDERS].offset == 2
    assert request_names(broker, "ListOffsets", "Metadata") == ["ListOffsets"] * 3


def test_permanent_error_is_raised_without_a_retry(broker: kqueue.Broker, client: Client, trouble: Faults) -> None:
    broker.requests.clear()
    trouble.fail("Fetch", "TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(BrokerRefused, match=r"Fetch of orders-0: TOPIC_AUTHORIZATION_FAILED \(let this client's user"):
        client.fetch({ORDERS: 0})
    assert request_names(broker, "Fetch", "Metadata") == ["Fetch"]


def test_only_the_partition_that_failed_is_asked_again(broker: kqueue.Broker, client: Client, trouble: Faults) -> None:
    first, second = TopicPartition("others", 0), TopicPartition("others", 1)
    trouble.fail("Produce", times=2, topic="others", partition=1)
    produced = client.produce({first: batch([b"0"]), second: batch([b"1"])})
    assert [one.base_offset for one in produced.values()] == [0, 0]
    assert read_all(client, first) == [b"0"]
    assert read_all(client, second) == [b"1"]


def test_a_connection_that_breaks_is_made_anew(broker: kqueue.Broker, client: Client, trouble: Faults) -> None:
    for api in ("Fetch", "Metadata", "ListOffsets", "FindCoordinator", "OffsetCommit", "OffsetFetch"):
        trouble.disconnect(api, times=2)
        trouble.drop_reply(api)
    assert values_of(client.fetch({ORDERS: 0})[ORDERS]) == [b"a", b"b"]
    assert client.offsets({ORDERS: LATEST})[ORDERS].offset == 2
    assert client.metadata().topics
    client.commit("g", {ORDERS: 1})
    assert client.committed("g")[ORDERS].offset == 1
    assert len(trouble.fired) == 18


@pytest.mark.parametrize("error", ["NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_coordinator_that_moved_is_looked_for(
    broker: kqueue.Broker, client: Client, trouble: Faults, error: str
) -> None:
    client.commit("g", {ORDERS: 1})
    broker.requests.clear()
    trouble.fail("OffsetCommit", error)
    client.commit("g", {ORDERS: 2})
    assert request_names(broker, "OffsetCommit", "FindCoordinator") == [
        "OffsetCommit",
        "FindCoordinator",
        "OffsetCommit",
    ]
    assert client.committed("g")[ORDERS].offset == 2


def test_the_controller_that_moved_is_looked_for(broker: kqueue.Broker, client: Client, trouble: Faults) -> None:
    trouble.fail("CreateTopics", "NOT_CONTROLLER", times=2)
    assert "new" in client.create_topics([NewTopic("new")]).topics


def test_a_topic_that_is_not_everywhere_yet_is_waited_for(broker: kqueue.Broker, trouble: Faults) -> None:
    with Client(broker.bootstrap, retry_backoff_ms=2, missing_topic_ms=30_000) as client:
        trouble.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", times=2, topic="others")
        assert client.offsets({("others", 0): LATEST})
        trouble.fail("Metadata", "LEADER_NOT_AVAILABLE", times=2, topic="orders")
        assert "orders" in client.metadata(["orders"]).topics


# --- doing things twice


def test_an_idempotent_batch_whose_answer_is_lost_is_there_once(client: Client, trouble: Faults) -> None:
    producer = client.init_producer()
    for number in range(5):
        trouble.drop_reply("Produce", times=2)
        sent = batch([b"%d" % number], producer_id=producer.id, epoch=producer.epoch, base_sequence=number)
        assert client.produce({ORDERS: sent})[ORDERS].base_offset == 2 + number
    assert read_all(client, ORDERS, 2) == [b"0", b"1", b"2", b"3", b"4"]
    assert len(trouble.fired) == 10


def test_a_plain_batch_whose_answer_is_lost_is_not_sent_again(client: Client, trouble: Faults) -> None:
    trouble.drop_reply("Produce")
    with pytest.raises(ConnectionLost, match="before Produce was answered") as caught:
        client.produce({ORDERS: batch([b"once"])})
    assert caught.value.sent
    assert read_all(client, ORDERS, 2) == [b"once"]
    trouble.fail("Produce", "REQUEST_TIMED_OUT")
    with pytest.raises(BrokerRefused, match="REQUEST_TIMED_OUT"):
        client.produce({ORDERS: batch([b"may be there"])})


def test_a_topic_whose_making_was_not_answered_is_not_made_again(client: Client, trouble: Faults) -> None:
    trouble.drop_reply("CreateTopics")
    with pytest.raises(ConnectionLost, match="CreateTopics"):
        client.create_topics([NewTopic("perhaps")])
    assert "perhaps" in client.metadata().topics


@pytest.mark.parametrize("seed", range(5))
def test_whatever_goes_wrong_nothing_is_lost_or_doubled(broker: kqueue.Broker, seed: int) -> None:
    with faults(broker, seed) as trouble, Client(broker.bootstrap, **QUICK) as client:
        producer = client.init_producer()
        trouble.drop_reply("*", times=None, probability=0.1)
        trouble.disconnect("*", times=None, probability=0.1)
        for api in ("Produce", "Fetch", "ListOffsets", "Metadata"):
            trouble.fail(api, times=None, probability=0.1)
        for number in range(30):
            sent = batch([b"%d" % number], producer_id=producer.id, epoch=producer.epoch, base_sequence=number)
            assert client.produce({ORDERS: sent}, timeout_ms=20_000)[ORDERS].base_offset == number
        assert read_all(client, ORDERS, partition_max_bytes=1, timeout_ms=20_000) == [
            b"%d" % number for number in range(30)
        ]
        assert client.offsets({ORDERS: LATEST}, timeout_ms=20_000)[ORDERS].offset == 30
        assert len(trouble.fired) > 20


def test_a_plain_batch_lost_at_the_deadline_is_told_as_lost(client: Client, trouble: Faults) -> None:
    """It may be there, which an error that was met before must not hide."""
    trouble.fail("Produce")
    trouble.delay("Produce", seconds=60)
    with pytest.raises(ConnectionLost, match="before Produce was answered"):
        client.produce({ORDERS: batch([b"who knows"])}, timeout_ms=1500)


def test_a_plain_batch_is_sent_again_where_twice_does_no_harm(client: Client, trouble: Faults) -> None:
    trouble.drop_reply("Produce")
    trouble.fail("Produce", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
    before = read_all(client, ORDERS)
    client.produce({ORDERS: batch([b"x"])}, repeatable=True)
    assert set(read_all(client, ORDERS)[len(before) :]) == {b"x"}  # it may be there twice


# --- deadlines


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch", "FindCoordinator"])
def test_a_broker_that_is_silent_costs_no_more_than_the_deadline(
    broker: kqueue.Broker, trouble: Faults, api: str
) -> None:
    with Client(broker.bootstrap, **QUICK) as client:
        client.metadata(["orders"])  # so that it asks nothing else before
        trouble.delay(api, seconds=3600)
        with pytest.raises(DeadlinePassed, match=rf"no success within 1000 ms; .*before {api} was answered") as caught:
            {
                "Metadata": lambda: client.metadata(timeout_ms=1000),
                "ListOffsets": lambda: client.offsets({ORDERS: LATEST}, timeout_ms=1000),
                "Fetch": lambda: client.fetch({ORDERS: 0}, max_wait_ms=0, timeout_ms=1000),
                "FindCoordinator": lambda: client.committed("g", timeout_ms=1000),
            }[api]()
        assert isinstance(caught.value.__cause__, ConnectionLost)
        assert caught.value.api == api


def test_unanswered_request_is_sent_again(broker: kqueue.Broker, trouble: Faults) -> None:
    slow = trouble.delay("ListOffsets", seconds=60, times=1)
    with Client(broker.bootstrap, request_timeout_ms=100) as client:
        assert client.offsets({ORDERS: LATEST})[ORDERS].offset == 0
    assert slow.count == 1


def test_a_long_poll_ends_before_its_call_does(client: Client) -> None:
    assert client.fetch({ORDERS: 2}, max_wait_ms=60_000, timeout_ms=4000)[ORDERS].records == b""


def test_an_error_that_lasts_ends_with_the_deadline_and_keeps_what_others_gave(client: Client, trouble: Faults) -> None:
    trouble.fail("ListOffsets", times=None, topic="others", partition=1)
    with pytest.raises(DeadlinePassed, match=r"within 1500 ms; .*others-1: NOT_LEADER_OR_FOLLOWER") as caught:
        client.offsets({("others", 0): LATEST, ("others", 1): LATEST}, timeout_ms=1500)
    assert caught.value.failed.keys() == {("others", 1)}
    assert caught.value.done[("others", 0)].offset == 0


def test_deadline_error_names_the_first_and_last_error(client: Client, trouble: Faults) -> None:
    trouble.fail("Produce", "KAFKA_STORAGE_ERROR", topic="orders")
    trouble.fail("Produce", "LEADER_NOT_AVAILABLE", topic="orders", times=None)
    with pytest.raises(
        DeadlinePassed, match=r"last that was met: .*orders-0: LEADER_NOT_AVAIL.*; the first: .*KAFKA_STORAGE_ERROR"
    ):
        client.produce({ORDERS: batch([b"x"], producer_id=7, epoch=0, base_sequence=0)}, timeout_ms=1500)


def test_deadline_error_keeps_the_error_before_the_last_call(client: Client, trouble: Faults) -> None:
    client.offsets({ORDERS: LATEST})
    trouble.fail("ListOffsets")
    trouble.delay("Metadata", seconds=60)
    with pytest.raises(DeadlinePassed, match="orders-0: NOT_LEADER_OR_FOLLOWER"):
        client.offsets({ORDERS: LATEST}, timeout_ms=1500)


def test_unreachable_brokers_are_reported_with_each_address() -> None:
    with Client("127.0.0.1:1,[::1]:1,no..host", timeout_ms=300) as client, pytest.raises(DeadlinePassed) as caught:
        client.metadata()
    for words in (
        "no broker answers",
        "127.0.0.1:1: Connection refused",
        "[::1]:1: ",
        "no..host:9092: the host's name",
    ):
        assert words in str(caught.value)
    assert isinstance(caught.value.__cause__, BrokerUnreachable)


def test_single_reachable_bootstrap_address_is_enough(broker: kqueue.Broker) -> None:
    with Client(f"127.0.0.1:1,{broker.bootstrap}", **QUICK) as client:
        assert "orders" in client.metadata().topics


# --- brokers that go and come


def test_a_restart_in_the_middle_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """FetchedRecords in small pieces by one thread, while the broker is restarted three times."""
    with kqueue.Broker(tmp_path) as broker, Client(broker.bootstrap, **QUICK) as client:
        broker.create_topic("orders")
        for number in range(60):
            client.produce({ORDERS: batch([b"%d" % (number * 5 + each) for each in range(5)])})
        result: list[bytes | None] = []
        offset = 0
        for round_ in itertools.count():
            if round_ in (5, 20, 40):
                restart = threading.Thread(target=broker.restart)
                restart.start()
            fetched = client.fetch({ORDERS: offset}, partition_max_bytes=1, max_wait_ms=0, timeout_ms=20_000)[ORDERS]
            if fetched.next_offset is None:
                break
            result += values_of(fetched, offset)
            offset = fetched.next_offset
            if round_ in (5, 20, 40):
                restart.join()
        assert result == [b"%d" % number for number in range(300)]


def test_a_broker_that_was_restarted_is_written_to_without_a_doubt(broker: kqueue.Broker, client: Client) -> None:
    """A connection that the broker has closed is noticed before anything is sent on it, so that
    even a plain batch may be sent.
    """
    for number in range(3):
        broker.restart()
        assert client.produce({ORDERS: batch([b"c"])})[ORDERS].base_offset == 2 + number


def test_a_newer_leader_epoch_is_learned(broker: kqueue.Broker, client: Client) -> None:
    client.fetch({ORDERS: 0})
    replica = broker._server.broker.replicas.host.sole_replica
    replica.begin_epoch(replica.leader_epoch + 1)
    broker.requests.clear()
    assert values_of(client.fetch({ORDERS: 0})[ORDERS]) == [b"a", b"b"]
    assert request_names(broker, "Fetch", "Metadata") == ["Fetch", "Metadata", "Fetch"]
    assert client._router.cluster.leader_epoch(ORDERS) == replica.leader_epoch


# --- many brokers


class Play:
    """Two brokers that know who leads which of six partitions of `t`, and answer ListOffsets with
    their own number.
    """

    def __init__(self) -> None:
        self.leaders = [0, 1, 0, 1, 0, 1]
        self.told = list(self.leaders)
        self.met = threading.Barrier(2)
        self.brokers = [Impostor(lambda *request, number=number: self.answer(number, *request)) for number in range(2)]

    def answer(self, number: int, key: int, version: int, correlation: int, body: bytes) -> bytes:
        return answer_of(
            key, version, correlation, self.metadata() if key == 3 else self.offsets(number, version, body)
        )

    def metadata(self) -> MetadataResponse:
        ports = [int(broker.bootstrap.split(":")[1]) for broker in self.brokers]
        nodes = [
            MetadataResponseBroker(node_id=number, host="127.0.0.1", port=port) for number, port in enumerate(ports)
        ]
        parts = [
            MetadataResponsePartition(partition_index=index, leader_id=leader) for index, leader in enumerate(self.told)
        ]
        self.told = list(self.leaders)
        return MetadataResponse(brokers=nodes, topics=[MetadataResponseTopic(name="t", partitions=parts)])

    def offsets(self, number: int, version: int, body: bytes) -> ListOffsetsResponse:
        indexes = [
            partition.partition_index for partition in decode(ListOffsetsRequest, version, body).topics[0].partitions
        ]
        self.met.wait(60)
        return ListOffsetsResponse(
            topics=[
                ListOffsetsTopicResponse(
                    name="t",
                    partitions=[
                        ListOffsetsPartitionResponse(partition_index=index, error_code=NOT_LEADER)
                        if self.leaders[index] != number
                        else ListOffsetsPartitionResponse(partition_index=index, offset=number)
                        for index in indexes
                    ],
                )
            ]
        )


@pytest.fixture
def play() -> Iterator[Play]:
    produced = Play()
    with ExitStack() as stack:
        for each in produced.brokers:
            stack.enter_context(each)
        yield produced


def test_all_leaders_are_asked_at_the_same_time(play: Play) -> None:
    """Each answers only once the other was asked too."""
    with Client(play.brokers[0].bootstrap, **QUICK) as client:
        result = client.offsets(dict.fromkeys(SIX, EARLIEST))
    assert [result[topic_partition].offset for topic_partition in SIX] == [0, 1, 0, 1, 0, 1]
    assert [[key for key, _ in broker.asked].count(2) for broker in play.brokers] == [1, 1]


def test_a_leader_that_moved_is_found_at_its_new_place(play: Play) -> None:
    with Client(play.brokers[1].bootstrap, **QUICK) as client:
        client.offsets(dict.fromkeys(SIX, EARLIEST))
        play.leaders = [1, 0, 1, 0, 1, 0]
        result = client.offsets(dict.fromkeys(SIX, EARLIEST))
    assert [result[topic_partition].offset for topic_partition in SIX] == play.leaders


def test_a_new_topic_is_waited_for_until_each_partition_is_led(play: Play) -> None:
    play.told = [0, 1, -1, 1, 0, 7]
    with Client(play.brokers[0].bootstrap, **QUICK) as client:
        result = client._router.wait_for_leaders(["t"], Deadline(5_000))
    assert [partition.leader for partition in result.topics["t"].partitions.values()] == play.leaders
    assert [key for key, _ in play.brokers[0].asked].count(3) == 2


def test_a_new_topic_that_a_broker_has_not_heard_of_is_waited_for_longer(client: Client, trouble: Faults) -> None:
    """Longer than `missing_topic_ms`: it has just been made."""
    trouble.fail("Metadata", "UNKNOWN_TOPIC_OR_PARTITION", times=8, topic="new")
    assert "new" in client.create_topics([NewTopic("new")]).topics
    assert len(trouble.fired) == 8


def test_an_answer_about_other_partitions_is_none(play: Play) -> None:
    play.leaders = play.told = [0] * 6
    play.met = threading.Barrier(1)
    whole = play.offsets

    def short(number: int, version: int, body: bytes) -> ListOffsetsResponse:
        produced = whole(number, version, body)
        produced.topics[0].partitions.pop()
        return produced

    play.offsets = short  # type: ignore[method-assign]
    with (
        Client(play.brokers[0].bootstrap, **QUICK) as client,
        pytest.raises(BadAnswer, match="leaves out what was asked.*: t-5"),
    ):
        client.offsets(dict.fromkeys(SIX, EARLIEST))


def test_batches_of_a_broker_that_dies_while_it_sends_are_whole_or_asked_for_again(
    broker: kqueue.Broker, client: Client
) -> None:
    """An answer that is cut off is no answer: what is handed out came whole."""
    client.produce({ORDERS: batch([bytes(300_000)] * 3)})
    whole = client.fetch({ORDERS: 2})[ORDERS]
    restart = threading.Thread(target=broker.restart)
    restart.start()
    for _ in range(20):
        again = client.fetch({ORDERS: 2}, timeout_ms=20_000)[ORDERS]
        assert again.records == whole.records
        assert [header.size for _, header in iter_batches(again.records)] == [len(again.records)]
    restart.join()
