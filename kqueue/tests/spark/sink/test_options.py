from __future__ import annotations

import pickle

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.sink.options import IGNORED, OPTIONS, REFUSED, TABLE, parse_options
from kqueue.tests.tables import for_each

SERVERS = {"kafka.bootstrap.servers": "localhost:9092"}


def test_names_are_accepted_in_any_case_and_defaults_apply() -> None:
    options = parse_options(
        {"KAFKA.Bootstrap.Servers": "a:1,b:2", "TOPIC": "orders", "kafka.ACKS": "1"}, streaming=True
    )
    assert (options.topic, options.acks, options.is_exactly_once) == ("orders", 1, False)
    assert options.client.bootstrap == "a:1,b:2"
    assert pickle.loads(pickle.dumps(options)) == options


@for_each(
    "given, words",
    [
        ({"topik": "x"}, "there is no option 'topik'; did you mean 'topic'?"),
        ({"kafka.linger.msec": "5"}, "there is no option 'kafka.linger.msec'; did you mean 'kafka.linger.ms'?"),
        ({"topic": "a b"}, "topic: topic 'a b': only letters"),
        ({"kafka.acks": "2"}, "kafka.acks: expected all, -1, 1 or 0, found '2'"),
        ({"kafka.batch.size": "0"}, "kafka.batch.size: expected a whole number from 1 to 2147483647, found '0'"),
        ({"kafka.compression.type": "zip"}, "kafka.compression.type: "),
        ({"partitioner": "murmur3"}, "partitioner: "),
        ({"delivery": "twice"}, "delivery: expected at-least-once, exactly-once or transactional, found 'twice'"),
        ({"path": "x"}, "path is not supported: rows go to a broker"),
        ({"kafka.transactional.id": "x"}, "kafka.transactional.id is not supported: use delivery=transactional"),
        ({"kafka.security.protocol": "TLS"}, "kafka.security.protocol=TLS: expected one of"),
        (
            {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "PLAIN"},
            "PLAIN needs kafka.sasl.jaas.config",
        ),
        ({"kafka.compression.gzip.level": "10"}, "kafka.compression.gzip.level: expected a whole number from 1 to 9"),
        ({"kafka.max.request.size": "0"}, "kafka.max.request.size: expected a whole number from 1"),
        ({"kafka.partitioner.ignore.keys": "yes"}, "kafka.partitioner.ignore.keys: expected true or false"),
        ({"kafka.partitioner.ignore.keys": "true", "partitioner": "murmur2"}, "contradict each other"),
        ({"kafka.bootstrap.servers": "host:port"}, "kafka.bootstrap.servers: "),
        ({"delivery": "exactly-once", "kafka.acks": "1", "txnAppId": "a", "txnVersion": "1"}, "needs kafka.acks=all"),
        ({"delivery": "exactly-once", "txnAppId": "a"}, "needs txnAppId and txnVersion"),
        ({"delivery": "exactly-once", "txnAppId": "a/b", "txnVersion": "1"}, "txnAppId: expected up to 100 letters"),
        ({"txnVersion": "1"}, "txnVersion is for delivery=exactly-once and transactional only"),
    ],
)
def test_wrong_options_are_refused_with_the_reason(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_options(SERVERS | given, streaming=False)
    assert words in str(caught.value)


def test_a_stream_has_its_querys_id() -> None:
    with pytest.raises(OptionError, match="txnAppId is for batch writes only"):
        parse_options(SERVERS | {"delivery": "exactly-once", "txnAppId": "a"}, streaming=True)
    with pytest.raises(OptionError, match="contradict each other"):
        parse_options(SERVERS | {"delivery": "exactly-once", "asyncProgressTrackingEnabled": "true"}, streaming=True)


def test_levels_have_kafkas_ranges_and_defaults() -> None:
    options = parse_options(SERVERS | {"kafka.compression.gzip.level": "-1"}, streaming=True)
    assert (options.level("gzip"), options.level("zstd"), options.level("none")) == (-1, None, None)


def test_missing_bootstrap_servers_are_refused() -> None:
    with pytest.raises(OptionError, match=r"kafka\.bootstrap\.servers=host:port"):
        parse_options({"topic": "t"}, streaming=False)


def test_options_of_kafkas_producer_that_mean_nothing_here_are_taken() -> None:
    parse_options(SERVERS | dict.fromkeys(IGNORED, "x") | {"kafka.security.protocol": "plaintext"}, streaming=True)


def test_option_names_are_unique_and_documented() -> None:
    assert len(TABLE.by_name) == len(OPTIONS)
    assert all(option.doc.endswith(".") for option in OPTIONS)
    assert not set(TABLE.by_name) & (set(REFUSED) | {name.lower() for name in IGNORED})
