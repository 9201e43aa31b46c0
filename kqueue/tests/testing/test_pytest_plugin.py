"""The pytest plugin as users run it: in a pytest process of its own, with kafka-python clients."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
CLIENT = """
from kafka import KafkaConsumer, KafkaProducer


def send(bootstrap, topic, *values):
    producer = KafkaProducer(bootstrap_servers=bootstrap)
    for value in values:
        producer.send(topic, value)
    producer.close()


def read(bootstrap, topic, count):
    options = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 10_000}
    consumer = KafkaConsumer(topic, bootstrap_servers=bootstrap, **options)
    values = [record.value for _, record in zip(range(count), consumer)]
    consumer.close()
    return values
"""


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    """Return a function that runs test code in a pytest process with these options."""
    pytester.makepyfile(client=CLIENT)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(tests: str, *options: str, conftest: str = "") -> pytest.RunResult:
        pytester.makepyfile(test_it=tests)
        pytester.makeconftest(conftest)
        return pytester.runpytest_subprocess(
            "-p", "no:cacheprovider", "-p", "no:hypothesispytest", *options, timeout=60
        )

    return run


PASSING = {
    "a_broker_and_a_new_topic_for_each_test": """
        import pytest
        from client import read, send

        SEEN = []

        @pytest.mark.parametrize("value", [b"tea", b"coffee"])
        def test_orders(kafka_broker, kafka_topic, value):
            send(kafka_broker.bootstrap, kafka_topic, value)
            assert read(kafka_broker.bootstrap, kafka_topic, 1) == [value]
            SEEN.append((kafka_broker, kafka_topic))

        def test_one_broker_many_topics():
            (broker, first), (same, second) = SEEN
            assert broker is same
            assert first != second
            assert first.startswith("test-orders-tea")
            assert list(broker.topics) == []
    """,
    "the_mark_configures_the_topic": """
        import pytest

        @pytest.mark.kafka_topic(partitions=3, cleanup_policy="compact")
        def test_it(kafka_broker, kafka_topic):
            topic = kafka_broker.topics[kafka_topic]
            assert len(topic.end_offsets) == 3
            assert topic.config["cleanup.policy"] == ["compact"]
    """,
    "a_test_may_stop_the_broker": """
        def test_stops(kafka_broker, kafka_topic):
            kafka_broker.stop()

        def test_goes_on(kafka_broker, kafka_topic):
            assert kafka_topic in kafka_broker.topics
    """,
    "faults_end_with_their_test": """
        import pytest
        from client import send
        from kafka import KafkaProducer
        from kafka.errors import KafkaError

        def test_refused(kafka_broker, kafka_topic, kafka_faults):
            kafka_faults.fail("Produce", error="TOPIC_AUTHORIZATION_FAILED")
            producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
            with pytest.raises(KafkaError):
                producer.send(kafka_topic, b"x").get(60)
            producer.close()

        def test_taken(kafka_broker, kafka_topic):
            producer = KafkaProducer(bootstrap_servers=kafka_broker.bootstrap)
            assert producer.send(kafka_topic, b"x").get(60).offset == 0
            producer.close()
    """,
    "the_calls_for_coroutines_are_a_fixture": """
        import asyncio

        def test_it(async_kafka_broker, kafka_topic):
            async def orders():
                await async_kafka_broker.produce(kafka_topic, "tea")
                await async_kafka_broker.assert_produced(kafka_topic, ["tea"], within_s=5)

            asyncio.run(orders())
    """,
    # Otherwise pytest rewrites the assertions of two hundred modules before the first broker.
    "assertions_of_the_broker_are_not_rewritten": """
        def test_it(kafka_broker):
            import kqueue.log.log
            assert "rewrite" not in type(kqueue.log.log.__loader__).__module__
    """,
}
"""Tests that pass, by what they show, in one pytest process: its start takes the longest."""


def test_what_holds_by_default(pytester: pytest.Pytester, run) -> None:
    pytester.makepyfile(**{f"test_{name}": tests for name, tests in PASSING.items()})
    result = run("", "--strict-markers", "-v")
    result.assert_outcomes(passed=10)
    for name in PASSING:
        result.stdout.fnmatch_lines([f"test_{name}.py::* PASSED*"])


@pytest.mark.long
def test_brokers_of_a_factory_end_with_their_test(run) -> None:
    tests = """
        import pytest

        MADE = []

        def test_two(kafka_broker_factory):
            MADE.extend(kafka_broker_factory(num_partitions=count) for count in (1, 2))
            assert MADE[0].port != MADE[1].port
            assert all(broker.is_running for broker in MADE)

        def test_none():
            assert not any(broker.is_running for broker in MADE)

        @pytest.fixture
        def broken(kafka_broker_factory):
            MADE[:] = [kafka_broker_factory()]
            raise ValueError("on purpose")

        def test_error(broken):
            pass

        def test_none_after_an_error():
            assert not any(broker.is_running for broker in MADE)
    """
    run(tests).assert_outcomes(passed=3, errors=1)


@pytest.mark.long
def test_a_report_shows_the_side_of_the_brokers_that_the_test_used_alone(run) -> None:
    tests = """
        import logging
        import pytest
        from client import send

        def test_before(kafka_broker, kafka_topic, kafka_broker_factory):
            send(kafka_broker.bootstrap, kafka_topic, b"x")

        def test_without_a_broker():
            assert False

        def test_it(kafka_broker, kafka_topic):
            send(kafka_broker.bootstrap, kafka_topic, b"x")
            logging.getLogger("kqueue.broker").warning("a line of the broker")
            assert False

        def test_with_another(kafka_broker_factory):
            broker = kafka_broker_factory()
            broker.create_topic("orders")
            send(broker.bootstrap, "orders", b"x")
            assert False

        def test_by_name(request):
            request.getfixturevalue("kafka_broker")
            assert False

        @pytest.fixture
        def shop(kafka_broker):
            return kafka_broker

        def test_through_another_fixture(shop):
            assert False
    """
    result = run(tests, "-p", "no:randomly")
    result.assert_outcomes(passed=1, failed=5)
    lines = [
        "*a line of the broker",
        "*- kqueue broker call -*",
        "*kqueue.Broker on 127.0.0.1:* had * requests*",
        "*Produce*test-it-2*",
    ]
    result.stdout.fnmatch_lines(lines)
    result.stdout.no_fnmatch_line("*test-before-1*")
    output = result.stdout.str()
    sections = {
        test: output.split(f"___ {test} ___")[1].split("\n____")[0].count("kqueue broker call")
        for test in ("test_without_a_broker", "test_with_another", "test_by_name", "test_through_another_fixture")
    }
    assert sections == {
        "test_without_a_broker": 0,
        "test_with_another": 1,
        "test_by_name": 1,
        "test_through_another_fixture": 1,
    }


@pytest.mark.long
def test_a_conftest_configures_the_broker_and_the_mark_fills_the_topic(run, pytester: pytest.Pytester) -> None:
    (pytester.path / "orders.jsonl").write_text('{"topic": "old", "partition": 2, "value": "a"}\n{"value": {"b": 1}}\n')
    tests = """
        import pytest

        @pytest.mark.kafka_topic(records="orders.jsonl")
        def test_file(kafka_broker, kafka_topic):
            topic = kafka_broker.topics[kafka_topic]
            assert topic.partitions == 3
            kafka_broker.assert_produced(kafka_topic, ["a", {"b": 1}])

        @pytest.mark.kafka_topic(5, records=[{"value": "x"}], retention_ms=5000)
        def test_list(kafka_broker, kafka_topic):
            topic = kafka_broker.topics[kafka_topic]
            assert topic.partitions == 5
            assert topic.own_config == {"retention.ms": 5000}
            kafka_broker.assert_produced(kafka_topic, ["x"])

        def test_default(kafka_broker, kafka_topic):
            assert kafka_broker.topics[kafka_topic].partitions == 2

        @pytest.mark.kafka_topic(records=["no json"])
        def test_wrong(kafka_topic):
            pass

        def test_nothing_is_left(kafka_broker):
            assert list(kafka_broker.topics) == []

        def test_options(kafka_broker, kafka_broker_options):
            assert (kafka_broker_options["path"] / "meta.properties").exists()
    """
    conftest = """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_broker_options(tmp_path_factory):
            return {"path": tmp_path_factory.mktemp("data"), "num_partitions": 2}
    """
    result = run(tests, "--strict-markers", conftest=conftest)
    result.assert_outcomes(passed=5, errors=1)
    result.stdout.fnmatch_lines(["*ValueError: records, line 1: this is not JSON*"])


@pytest.mark.long
def test_workers_have_brokers_of_their_own(run, pytester: pytest.Pytester) -> None:
    tests = """
        import os
        import pathlib
        import pytest
        from client import read, send

        @pytest.mark.parametrize("number", range(2))
        def test_it(kafka_broker, kafka_topic, number):
            send(kafka_broker.bootstrap, kafka_topic, b"%d" % number)
            assert read(kafka_broker.bootstrap, kafka_topic, 1) == [b"%d" % number]
            pathlib.Path(f"{os.environ['PYTEST_XDIST_WORKER']}-{kafka_broker.port}").touch()
    """
    run(tests, "-n", "2", "--dist", "each").assert_outcomes(passed=4)
    assert len({path.name.partition("-")[2] for path in Path(pytester.path).glob("gw*")}) == 2


@pytest.mark.long
def test_an_unused_plugin_imports_no_broker(run) -> None:
    tests = """
        import sys

        def test_it():
            assert "kqueue.testing.pytest_plugin" in sys.modules
            unused = ("kqueue.embedded", "kqueue.network", "kqueue.app", "kqueue.log")
            assert not any(name.startswith(unused) for name in sys.modules)
    """
    run(tests).assert_outcomes(passed=1)


@pytest.mark.long
def test_each_test_finds_a_cluster_that_is_new_or_makes_its_own(run) -> None:
    tests = """
        from client import read, send

        SEEN = []

        def test_harm(kafka_cluster):
            kafka_cluster.create_topic("orders", replicas={0: [2, 0, 1]})
            kafka_cluster.pause(0)
            kafka_cluster.kill(1)
            kafka_cluster.partition({1}, {2})
            SEEN.append(kafka_cluster)

        def test_new_again(kafka_cluster):
            assert kafka_cluster is SEEN[0]
            assert "orders" not in kafka_cluster[0].topics
            send(kafka_cluster.bootstrap, "orders", b"tea")
            assert read(kafka_cluster.bootstrap, "orders", 1) == [b"tea"]
            kafka_cluster.stop()

        def test_running_again(kafka_cluster):
            assert kafka_cluster.is_running

        MADE = []

        def test_two(kafka_cluster_factory):
            MADE.append(kafka_cluster_factory(brokers=2))
            send(MADE[0].bootstrap, "orders", b"tea")
            assert len(MADE[0].brokers) == 1

        def test_none():
            assert not MADE[0].is_running
    """
    conftest = """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster_options():
            return {"brokers": 3}
    """
    result = run(tests, conftest=conftest)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*kqueue broker call*", "<broker ? on 127.0.0.1:* had * request*"])


@pytest.mark.long
def test_the_shared_cluster_can_be_secured(run) -> None:
    tests = """
        import pytest
        from kafka import KafkaProducer
        from kafka.errors import TopicAuthorizationFailedError

        @pytest.mark.parametrize("turn", [1, 2])
        def test_it(kafka_cluster, turn):
            kafka_cluster.create_topic("orders")
            with KafkaProducer(**kafka_cluster.client_config("kafka-python", user="ann")) as producer:
                producer.send("orders", b"two coffees").get(60)
                with pytest.raises(TopicAuthorizationFailedError):
                    producer.send("secrets", b"sugar").get(60)
            kafka_cluster.assert_produced("orders", [b"two coffees"])
    """
    conftest = """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster_options():
            acls = ["User:ann allow all topic:orders", "User:ann allow idempotent_write cluster"]
            return {"tls": True, "users": {"ann": "secret"}, "acls": acls}
    """
    run(tests, conftest=conftest).assert_outcomes(passed=2)
