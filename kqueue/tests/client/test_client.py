from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Iterator

import pytest

import kqueue
from kqueue.api import version_profiles
from kqueue.base.errors import CorruptBatch
from kqueue.client import (
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    Client,
    ClientOptions,
    NewTopic,
    OffsetAndMetadata,
    ResourceType,
    TopicPartition,
)
from kqueue.client.errors import BrokerRefused, FetchOutOfRange, IncompatibleBroker, Interrupted
from kqueue.records.batch import iter_batches
from kqueue.testing import faults
from kqueue.tests.client.serving import ORDERS, QUICK, TIME_MS, batch, read_all, values_of
from kqueue.tests.waits import eventually

HIGHEST = {"2.8": [9, 12, 6, 11, 3, 8, 7], "3.9": [11, 17, 9, 12, 6, 9, 9], "4.3": [13, 18, 11, 13, 6, 9, 9]}
THREE = [TopicPartition("three", index) for index in range(3)]


@pytest.fixture(
    scope="module", params=[None, *version_profiles.VERSIONS], ids=lambda version: f"as-{version or 'itself'}"
)
def broker(request: pytest.FixtureRequest) -> Iterator[kqueue.Broker]:
    with kqueue.Broker(as_version=request.param, broker_rack="r1") as broker:
        broker.create_topic("orders", compression_type="producer")
        broker.create_topic("three", 3, max_message_bytes=100_000)
        broker.create_topic("empty", 2)
        with Client(broker.bootstrap) as client:
            for number in range(3):
                values = [b"%d" % each for each in range(number * 10, number * 10 + 10)]
                client.produce({ORDERS: batch(values, codec="gzip" if number == 1 else "none")})
            client.produce(
                {
                    topic_partition: batch([b"%d" % topic_partition.partition] * (topic_partition.partition + 1))
                    for topic_partition in THREE
                }
            )
        yield broker


@pytest.fixture
def client(broker: kqueue.Broker) -> Iterator[Client]:
    with Client(broker.bootstrap, **QUICK) as client:
        yield client


def test_each_request_goes_in_the_highest_version_that_both_know(broker: kqueue.Broker, client: Client) -> None:
    broker.requests.clear()
    client.produce({TopicPartition("empty", 1): batch([b"a"])})
    client.fetch({ORDERS: 0})
    client.offsets({ORDERS: LATEST})
    client.commit("versions", {ORDERS: 1})
    client.committed("versions")
    sent = {one.api: one.version for one in broker.requests}
    highest = HIGHEST.get(broker._config["kqueue.as.version"], HIGHEST["4.3"])
    apis = ("Produce", "Fetch", "ListOffsets", "Metadata", "FindCoordinator", "OffsetCommit", "OffsetFetch")
    assert [sent[api] for api in apis] == highest


def test_metadata_tells_of_brokers_topics_and_leaders(broker: kqueue.Broker, client: Client) -> None:
    result = client.metadata()
    assert {"orders", "three", "empty"} <= result.topics.keys()
    (node,) = result.brokers.values()
    assert (node.host, node.port, node.rack) == ("127.0.0.1", broker.port, "r1")
    assert result.topics["three"].topic_partitions == THREE
    assert [partition.leader for partition in result.topics["three"].partitions.values()] == [node.id] * 3
    assert result.topics["three"].id != bytes(16)
    assert list(client.metadata(["orders"]).topics) == ["orders"]
    assert client.metadata([]).topics == {}


def test_a_pattern_matches_whole_names_and_no_internal_topics(client: Client) -> None:
    client.commit("makes the internal topic", {ORDERS: 1})
    assert list(client.metadata(pattern="or.*|thre").topics) == ["orders"]
    assert list(client.metadata(pattern=re.compile("E.PTY", re.IGNORECASE)).topics) == ["empty"]
    everything = client.metadata()
    assert "__consumer_offsets" not in everything.matching(".*")
    assert "__consumer_offsets" in everything.matching(".*", internal=True)


def test_offsets_by_place_and_by_time(client: Client) -> None:
    assert client.offsets({ORDERS: EARLIEST})[ORDERS].offset == 0
    partitions = [*THREE, ORDERS, TopicPartition("empty", 0)]
    latest = client.offsets(dict.fromkeys(partitions, LATEST))
    assert [latest[topic_partition].offset for topic_partition in partitions] == [1, 2, 3, 30, 0]
    at = client.offsets({ORDERS: TIME_MS + 2_500})[ORDERS]
    assert (at.offset, at.timestamp) == (3, TIME_MS + 3_000)
    assert client.offsets({ORDERS: TIME_MS + 10**9})[ORDERS].offset is None
    assert client.offsets({ORDERS: LATEST}, isolation="read_committed")[ORDERS].offset == 30


def test_the_greatest_time_is_asked_of_those_who_know_it(broker: kqueue.Broker, client: Client) -> None:
    if broker._config["kqueue.as.version"] == "2.8":
        with pytest.raises(IncompatibleBroker, match=r"ListOffsets is needed in versions 7 to 11, but .* 0 to 6"):
            client.offsets({ORDERS: MAX_TIMESTAMP})
    else:
        assert client.offsets({ORDERS: MAX_TIMESTAMP})[ORDERS].timestamp == TIME_MS + 9_000


def test_a_fetch_hands_out_whole_batches_as_they_lie_there(client: Client) -> None:
    """S4.3: it begins in the middle of a batch, so the batch is there from its beginning."""
    fetched = client.fetch({ORDERS: 15})[ORDERS]
    assert [(header.base_offset, header.codec_id) for _, header in iter_batches(fetched.records)] == [(10, 1), (20, 0)]
    assert values_of(fetched, 15) == [b"%d" % number for number in range(15, 30)]
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.log_start_offset) == (30, 30, 0)
    assert (fetched.next_offset, fetched.aborted) == (30, ())
    assert fetched.records.readonly


def test_a_fetch_of_many_partitions_gives_something_for_each(client: Client) -> None:
    result = client.fetch({**dict.fromkeys(THREE, 0), ("empty", 0): 0}, max_wait_ms=0)
    assert list(result) == [*THREE, ("empty", 0)]
    assert [values_of(result[topic_partition]) for topic_partition in THREE] == [[b"0"], [b"1"] * 2, [b"2"] * 3]
    assert result[TopicPartition("empty", 0)].records == b""
    assert result[TopicPartition("empty", 0)].next_offset is None


def test_a_limit_of_bytes_ends_a_fetch_after_a_batch(client: Client) -> None:
    one = client.fetch({ORDERS: 0}, partition_max_bytes=1)[ORDERS]
    assert one.next_offset == 10
    assert read_all(client, ORDERS, partition_max_bytes=1) == [b"%d" % number for number in range(30)]


def test_out_of_range_is_told_apart_and_what_others_gave_is_kept(client: Client) -> None:
    with pytest.raises(
        FetchOutOfRange, match=r"Fetch of orders-0: OFFSET_OUT_OF_RANGE \(from offset 31; .* earliest"
    ) as caught:
        client.fetch({ORDERS: 31, THREE[2]: 0, THREE[1]: 99})
    assert caught.value.failed.keys() == {ORDERS, THREE[1]}
    assert values_of(caught.value.done[THREE[2]]) == [b"2"] * 3
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.code_name, again.topic, again.partition) == (
        str(caught.value),
        "OFFSET_OUT_OF_RANGE",
        "orders",
        0,
    )
    assert again.failed.keys() == {ORDERS, THREE[1]}


def test_out_of_range_is_raised_only_where_nothing_worse_is_met(client: Client) -> None:
    with pytest.raises(BrokerRefused, match="orders-7: UNKNOWN_TOPIC_OR_PARTITION") as caught:
        client.fetch({ORDERS: 31, ("orders", 7): 0})
    assert not isinstance(caught.value, FetchOutOfRange)
    assert isinstance(caught.value.failed[ORDERS], FetchOutOfRange)


@pytest.mark.parametrize("topic_partition", [("nowhere", 0), ("orders", 7)])
def test_missing_topic_is_retried_briefly_and_then_reported(client: Client, topic_partition: tuple[str, int]) -> None:
    with pytest.raises(
        BrokerRefused, match=rf"{topic_partition[0]}-{topic_partition[1]}: UNKNOWN_TOPIC_OR_PARTITION \(create it"
    ) as caught:
        client.fetch({topic_partition: 0})
    assert (caught.value.topic, caught.value.partition, caught.value.code) == (*topic_partition, 3)
    with pytest.raises(BrokerRefused, match="topic 'nowhere': UNKNOWN_TOPIC"):
        client.metadata(["orders", "nowhere"])
    with pytest.raises(BrokerRefused, match=r"topic 'a b': INVALID_TOPIC"):
        client.metadata(["a b"])


def test_produce_appends_what_it_is_given(client: Client) -> None:
    client.create_topics([NewTopic("written", 2)])
    partitions = [TopicPartition("written", index) for index in range(2)]
    producer = client.init_producer()
    for number, acks in enumerate((-1, 1)):
        sent = batch([b"%d" % number], producer_id=producer.id, epoch=producer.epoch, base_sequence=number)
        produced = client.produce(dict.fromkeys(partitions, sent), acks=acks)
        assert [(topic_partition, one.base_offset) for topic_partition, one in produced.items()] == [
            (topic_partition, number) for topic_partition in partitions
        ]
    assert client.produce({partitions[0]: bytearray(batch([b"2"]))}, acks=0)[partitions[0]].base_offset == -1
    assert values_of(client.fetch({partitions[0]: 2}, max_wait_ms=2_000)[partitions[0]], 2) == [b"2"]
    assert client.init_producer() != producer


def test_a_batch_that_is_too_large_is_refused_and_the_others_are_told(client: Client) -> None:
    other = TopicPartition("empty", 1)
    with pytest.raises(BrokerRefused, match=r"three-0: MESSAGE_TOO_LARGE \(.*smaller batches") as caught:
        client.produce({THREE[0]: batch([bytes(200_000)]), other: batch([b"fits"])})
    assert caught.value.failed.keys() == {THREE[0]}
    end = caught.value.done[other].base_offset
    assert values_of(client.fetch({other: end})[other], end) == [b"fits"]


@pytest.mark.parametrize("bad", [b"", batch([b"a"])[:-1], batch([b"a"]) * 2, b"no batch"])
def test_bytes_that_are_not_one_batch_are_not_sent(client: Client, bad: bytes) -> None:
    with pytest.raises(CorruptBatch):
        client.produce({ORDERS: bad})


def test_a_group_without_members_keeps_offsets(client: Client) -> None:
    client.commit("lag display", {ORDERS: 7, THREE[1]: OffsetAndMetadata(1, 0, "so far")})
    assert client.committed("lag display") == {
        ORDERS: OffsetAndMetadata(7),
        THREE[1]: OffsetAndMetadata(1, 0, "so far"),
    }
    assert client.committed("lag display", [THREE[1], THREE[2]], stable=False) == {
        THREE[1]: OffsetAndMetadata(1, 0, "so far")
    }
    assert client.committed("nobody") == {}


def test_all_groups_are_named_those_without_members_too(client: Client) -> None:
    for name in ("b listed", "a listed"):
        client.commit(name, {ORDERS: 1})
    result = client.groups()
    assert [name for name in result if name.endswith(" listed")] == ["a listed", "b listed"]
    assert result["a listed"].name == "a listed"
    assert result["a listed"].state in ("Empty", "")  # brokers as old as 2.5 do not tell


def test_topics_are_made_and_their_settings_told(client: Client) -> None:
    result = client.create_topics(
        [NewTopic("made", 4, settings={"max.message.bytes": "1234567"}), NewTopic("by-default")]
    )
    assert (len(result.topics["made"].partitions), len(result.topics["by-default"].partitions)) == (4, 1)
    names = ["max.message.bytes", "kqueue.partitioner", "no.such"]
    settings = client.configs(ResourceType.TOPIC, ["made", "three"], names)
    own, default = "DYNAMIC_TOPIC_CONFIG", "DEFAULT_CONFIG"
    assert settings["made"]["max.message.bytes"][:3] == ("max.message.bytes", "1234567", own)
    assert {name: row[1:3] for name, row in settings["three"].items()} == {
        "max.message.bytes": ("100000", own),
        "kqueue.partitioner": ("murmur2", default),
    }
    assert len(client.configs(ResourceType.TOPIC, ["made"])["made"]) > 20
    assert client.configs(ResourceType.TOPIC, []) == {}
    with pytest.raises(BrokerRefused, match=r"'made': TOPIC_ALREADY_EXISTS \(.*another name"):
        client.create_topics([NewTopic("made")])
    with pytest.raises(BrokerRefused, match=r"'nowhere': UNKNOWN_TOPIC"):
        client.configs(ResourceType.TOPIC, ["made", "nowhere"])


def test_partitions_are_added_once(client: Client) -> None:
    client.create_topics([NewTopic("growing", 1)])
    client.create_partitions("growing", 3)
    assert len(client.metadata(["growing"]).topics["growing"].partitions) == 3
    with pytest.raises(BrokerRefused, match="topic 'growing'"):
        client.create_partitions("growing", 3)


def test_topics_are_deleted(client: Client) -> None:
    topic_partition = TopicPartition("going", 0)
    for number in range(2):
        client.create_topics([NewTopic("going")])
        client.produce({topic_partition: batch([b"%d" % number])})
        assert values_of(client.fetch({topic_partition: 0})[topic_partition]) == [b"%d" % number], (
            "the second is another topic"
        )
        client.delete_topics(["going"])
        assert "going" not in client.metadata().topics
    with pytest.raises(BrokerRefused, match="DeleteTopics of topic 'going': UNKNOWN_TOPIC"):
        client.delete_topics(["going"])


def test_records_are_deleted(client: Client) -> None:
    client.create_topics([NewTopic("short")])
    topic_partition = TopicPartition("short", 0)
    client.produce({topic_partition: batch([b"a"] * 5)})
    assert client.delete_records({topic_partition: 3}) == {topic_partition: 3}
    assert client.offsets({topic_partition: EARLIEST})[topic_partition].offset == 3
    assert client.fetch({topic_partition: 3})[topic_partition].log_start_offset == 3
    assert client.delete_records({topic_partition: -1}) == {topic_partition: 5}
    with pytest.raises(BrokerRefused, match="OFFSET_OUT_OF_RANGE") as caught:
        client.delete_records({topic_partition: 6})
    assert not isinstance(caught.value, FetchOutOfRange)


def test_two_threads_at_once_are_refused_and_one_after_another_is_fine(broker: kqueue.Broker) -> None:
    with Client(broker.bootstrap) as client, faults(broker) as slow:
        held = slow.delay("ListOffsets", seconds=60)
        waiting = threading.Thread(target=client.offsets, args=({ORDERS: LATEST},))
        waiting.start()
        held.wait()
        with pytest.raises(RuntimeError, match="one client per thread"):
            client.metadata()
        held.cancel()
        waiting.join(60)
        assert client.offsets({ORDERS: EARLIEST})[ORDERS].offset is not None


def test_options_travel_and_clients_do_not(broker: kqueue.Broker) -> None:
    options = pickle.loads(pickle.dumps(ClientOptions(bootstrap=broker.bootstrap, client_id="executor")))
    with Client(options) as client:
        assert "orders" in client.metadata().topics
        with pytest.raises(TypeError, match="send its `options`"):
            pickle.dumps(client)
        client.close()
        assert client.metadata(["orders"]).topics, "it connects anew"


def test_words_for_wrong_arguments() -> None:
    with Client("localhost:1") as client:
        with pytest.raises(ValueError, match="read_uncommitted or read_committed"):
            client.fetch({ORDERS: 0}, isolation="committed")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="acks=2"):
            client.produce({ORDERS: batch([b"a"])}, acks=2)


def test_an_interrupted_call_ends_and_the_client_works_again_after_a_close(
    broker: kqueue.Broker, client: Client
) -> None:
    before = len(list(broker.requests))
    ended: list[BaseException] = []

    def wait() -> None:
        try:
            client.fetch({TopicPartition("empty", 0): 0}, max_wait_ms=20_000)
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: any(request.api == "Fetch" for request in list(broker.requests)[before:]), "the fetch")
    client.interrupt()
    thread.join()
    assert [type(error) for error in ended] == [Interrupted]
    with pytest.raises(Interrupted, match="the client was interrupted"):
        client.metadata([])
    client.close()
    assert client.metadata([]).brokers
