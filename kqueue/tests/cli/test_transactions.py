from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result
from kafka import KafkaProducer

import kqueue
from kqueue.cli.app import kqueue as root
from kqueue.client import LATEST, Client, TopicPartition
from kqueue.tests.client.hanging_transaction import hang

MINUTE_MS = 60_000
TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
ZERO = TopicPartition("t", 0)
ONE = TopicPartition("t", 1)


@pytest.fixture(scope="module")
def broker() -> Iterator[kqueue.Broker]:
    """A broker that does not verify the transactions of old producers, so that some may hang."""
    settings = {
        "transaction.partition.verification.enable": False,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.num.partitions": 1,
    }
    with kqueue.Broker(settings=settings) as broker:
        yield broker


@pytest.fixture
def kq(broker: kqueue.Broker) -> Callable[..., Result]:
    def run(*args: str) -> Result:
        return CliRunner().invoke(root, ["transactions", *args], env={"KQUEUE_BOOTSTRAP": broker.bootstrap})

    return run


Kq = Callable[..., Result]


@pytest.fixture
def topic(broker: kqueue.Broker, fresh: str) -> str:
    broker.create_topic(fresh, 2)
    return fresh


@pytest.fixture
def producer(broker: kqueue.Broker, topic: str) -> Iterator[KafkaProducer]:
    """A producer with an open transaction, whose transactional id is the topic's name."""
    producer = KafkaProducer(bootstrap_servers=broker.bootstrap, transactional_id=topic)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send(topic, b"x", partition=1, timestamp_ms=int(time.time() * 1000) - 30 * MINUTE_MS).get(60)
    yield producer
    producer.close(timeout=0)


def last_stable_offset(broker: kqueue.Broker, topic: str) -> int:
    partition = TopicPartition(topic, 0)
    with Client(broker.bootstrap) as client:
        return client.offsets({partition: LATEST}, isolation="read_committed")[partition].offset


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


# --- list and describe


def test_list_shows_ids_with_their_coordinator_and_state(kq: Kq, producer: KafkaProducer, topic: str) -> None:
    result = kq("list")
    assert result.exit_code == 0, result.output
    head, *rows = lines(result)
    assert head == ["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]
    [row] = [row for row in rows if row[0] == topic]
    assert (row[1], row[3]) == ("1", "Ongoing")
    producer.commit_transaction()
    [row] = [row for row in lines(kq("list")) if row[0] == topic]
    assert row[3] == "CompleteCommit"


def test_filters(kq: Kq, producer: KafkaProducer, topic: str) -> None:
    def ids(*args: str) -> list[str]:
        result = kq("list", *args, "-o", "json")
        assert result.exit_code == 0, result.output
        return [row["transactional_id"] for row in json.loads(result.stdout)]

    number = next(
        row["producer_id"] for row in json.loads(kq("list", "--json").stdout) if row["transactional_id"] == topic
    )
    assert ids("--producer-id", str(number)) == [topic]
    assert ids("--producer-id", str(number), "--state", "empty") == []
    assert topic in ids("--state", "ongoing", "--state", "Empty")
    assert ids("--pattern", topic) == ids("--transactional-id-pattern", topic) == [topic]
    assert ids("--pattern", topic[:-1]) == []
    assert kq("list", "--pattern", topic[:-1]).stderr == "There is no transactional id that matches.\n"
    assert "Empty, Ongoing, PrepareCommit" in " ".join(kq("list", "--help").stdout.split())
    assert topic not in ids("--duration-filter", "3600000")
    assert topic in ids("--duration-filter", "0")


def test_describe_shows_producer_duration_and_partitions(kq: Kq, producer: KafkaProducer, topic: str) -> None:
    fields = {name: " ".join(value) for name, *value in lines(kq("describe", topic))}
    assert (fields["transactional_id"], fields["state"], fields["partitions"]) == (topic, "Ongoing", f"{topic}-1")
    assert re.fullmatch(TIME, fields["start"])
    [described] = json.loads(kq("describe", "--transactional-id", topic, "-o", "json").stdout)
    assert described["partitions"] == [{"topic": topic, "partition": 1}]
    assert 0 <= described["duration_ms"] < 60_000
    assert described["producer_id"] == int(fields["producer_id"])
    producer.abort_transaction()
    [described] = json.loads(kq("describe", topic, "-o", "json").stdout)
    assert (described["state"], described["duration_ms"]) == ("CompleteAbort", None)


def test_an_unknown_id_is_an_error_and_the_others_are_shown(kq: Kq, producer: KafkaProducer, topic: str) -> None:
    result = kq("describe", "nobody-has-it", topic)
    assert result.exit_code == 1
    assert result.stderr == (
        "Error: there is no transactional id 'nobody-has-it'; `kqueue transactions list` shows all\n"
    )
    assert topic in result.stdout


def test_describe_producers(kq: Kq, producer: KafkaProducer, topic: str) -> None:
    head, row = lines(kq("describe-producers", topic))
    assert head[-1] == "TRANSACTION-START-OFFSET"
    assert (row[0], row[1], row[-1]) == (topic, "1", "0")
    assert re.fullmatch(TIME, row[5])
    none = kq("describe-producers", f"{topic}:0")
    assert none.stderr == "No producer with an id wrote to 1 partition of late.\n"
    assert json.loads(kq("describe-producers", f"{topic}:0", "-o", "json").stdout) == []
    [partition] = json.loads(kq("describe-producers", f"{topic}:0,1", "-o", "json").stdout)
    assert (partition["partition"], partition["transaction_start_offset"], partition["last_sequence"]) == (1, 0, 0)


# --- hanging transactions


def test_a_hanging_transaction_is_found_and_aborted(kq: Kq, broker: kqueue.Broker, topic: str) -> None:
    start = hang(broker, TopicPartition(topic, 0), 70_001, 21)
    assert last_stable_offset(broker, topic) == start
    result = kq("find-hanging", "--topic", topic)
    assert result.exit_code == 1
    head, row = lines(result)
    assert head[:3] == ["TOPIC", "PARTITION", "PRODUCER-ID"]
    assert row[:4] == [topic, "0", "70001", "0"]
    assert re.fullmatch(TIME, row[-2])
    assert row[-1] == "21"
    remedy = f"kqueue transactions abort --topic {topic} --partition 0 --start-offset {start}"
    assert f"`{remedy}`" in result.stderr
    result = kq(*remedy.split()[2:])
    assert result.exit_code == 0, result.output
    assert result.stdout == f"Aborted the transaction of producer 70001 in {topic}-0.\n"
    assert last_stable_offset(broker, topic) == start + 2
    result = kq("find-hanging", "--topic", topic, "-o", "json")
    assert (result.exit_code, result.stdout) == (0, "[]\n")
    assert result.stderr == "No transaction hangs in 2 partitions.\n"


def test_only_old_transactions_that_no_coordinator_knows_hang(
    kq: Kq, broker: kqueue.Broker, producer: KafkaProducer, topic: str
) -> None:
    assert producer is not None  # open for 30 minutes, by its timestamp, and known
    hang(broker, TopicPartition(topic, 0), 70_002, 10)
    assert kq("find-hanging", "--topic", topic).exit_code == 0
    result = kq("find-hanging", "--topic", topic, "--max-transaction-timeout", "4", "-o", "json")
    assert result.exit_code == 1
    [transaction] = json.loads(result.stdout)
    assert (transaction["producer_id"], transaction["partition"]) == (70_002, 0)
    assert kq("find-hanging", "-t", topic, "-p", "1", "--max-transaction-timeout", "0").exit_code == 0
    assert kq("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "4").exit_code == 1


def test_abort_by_producer(kq: Kq, broker: kqueue.Broker, topic: str) -> None:
    start = hang(broker, TopicPartition(topic, 0), 70_003, 1)
    partition = ("--topic", topic, "--partition", "0")
    result = kq("abort", *partition, "--producer-id", "70003", "--producer-epoch", "0", "--coordinator-epoch", "0")
    assert result.exit_code == 0, result.output
    assert last_stable_offset(broker, topic) == start + 2
    result = kq("abort", *partition, "--start-offset", str(start))
    assert result.exit_code == 1
    assert result.stderr == f"Error: no transaction in {topic}-0 starts at offset {start}; none is open there\n"
    other = hang(broker, TopicPartition(topic, 0), 70_004, 1)
    result = kq("abort", *partition, "--start-offset", "0")
    assert f"open ones start at {other}" in result.stderr


def test_abort_by_id_fences_the_producer(kq: Kq, producer: KafkaProducer, topic: str) -> None:
    result = kq("abort", "--transactional-id", topic)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Aborted the transaction of {topic}; its producer is fenced: id ")
    [described] = json.loads(kq("describe", topic, "-o", "json").stdout)
    assert described["partitions"] == []
    assert kq("abort", "--transactional-id", topic).stdout.startswith(f"{topic} had none open; its producer is fenced")
    with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
        producer.commit_transaction()


def test_abort_creates_no_id(kq: Kq, topic: str) -> None:
    result = kq("abort", "--transactional-id", f"{topic}-mistyped")
    assert result.exit_code == 1
    assert result.stderr == (
        f"Error: there is no transactional id '{topic}-mistyped'; `kqueue transactions list` shows all\n"
    )
    assert kq("describe", f"{topic}-mistyped").exit_code == 1


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("describe",), "name at least one transactional id"),
        (("abort",), "--transactional-id, or --topic and --partition"),
        (("abort", "-t", "t", "-p", "0"), "give either --start-offset, or --producer-id"),
        (("abort", "-t", "t", "-p", "0", "--start-offset", "1", "--producer-id", "7"), "give either --start-offset"),
        (("abort", "-t", "t", "-p", "0", "--producer-id", "7"), "give either --start-offset"),
        (("abort", "--transactional-id", "x", "-t", "t"), "--transactional-id stands alone"),
        (("find-hanging", "-p", "0"), "--partition needs --topic"),
        (("find-hanging", "--broker-id", "9"), "9: the cluster has the brokers 1"),
        (("list", "--pattern", "("), "'(' is no regular expression"),
        (("list", "--state", "nice"), "'nice' is not one of"),
    ],
)
def test_a_wrong_command_line_says_what_is_missing(kq: Kq, args: tuple[str, ...], message: str) -> None:
    result = kq(*args)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_missing_topics_and_partitions_are_named(kq: Kq, topic: str) -> None:
    for args in (("find-hanging", "-t", "missing"), ("describe-producers", "missing")):
        result = kq(*args)
        assert result.exit_code == 1
        assert result.stderr == "Error: there is no topic 'missing'; `kqueue topics list` shows all topics\n"
    result = kq("describe-producers", f"{topic}:0,5")
    assert result.stderr == f"Error: {topic} has the partitions 0 to 1, found '0,5'\n"


def test_no_broker_is_said_before_anything_else() -> None:
    result = CliRunner().invoke(root, ["transactions", "list", "-b", "127.0.0.1:1"])
    assert result.exit_code == 1
    assert "no broker answers at 127.0.0.1:1" in result.stderr
