from __future__ import annotations

import asyncio
import gc
import multiprocessing
import os
import socket
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kqueue
from kqueue.base.errors import FolderInUse, InvalidConfig, ListenFailed, SettingError, TopicAlreadyExists
from kqueue.client import Client, TopicPartition
from kqueue.tests.test_app import batch
from kqueue.tests.testing.raw import Raw
from kqueue.wire.messages.metadata import MetadataRequestTopic


def ask(bootstrap: str, name: str, version: int, **fields: object):
    """One request, in this version, over a connection of its own."""
    with Raw(bootstrap, "t") as raw:
        return raw.ask(name, version, **fields)


LOOPS = ("kqueue-broker", "kqueue-cluster")
"""The names of the threads that brokers run in."""


def produce(bootstrap: str, topic: str, value: bytes) -> None:
    with Client(bootstrap) as client:
        client.produce({TopicPartition(topic, 0): batch(value)})


def fetch(bootstrap: str, topic: str) -> bytes:
    place = TopicPartition(topic, 0)
    with Client(bootstrap) as client:
        return bytes(client.fetch({place: 0}, max_wait_ms=0)[place].records)


def topic_error(bootstrap: str, topic: str) -> int:
    return ask(bootstrap, "Metadata", 1, topics=[MetadataRequestTopic(name=topic)]).topics[0].error_code


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.fixture(autouse=True)
def _nothing_is_left_over() -> Iterator[None]:
    gc.collect()
    threads, files = set(threading.enumerate()), descriptors()
    yield
    gc.collect()
    if any(thread.name in LOOPS for thread in threads):
        return  # a broker of other tests runs in this process, and starts threads and opens files as it needs them
    assert set(threading.enumerate()) == threads
    assert descriptors() == files


def test_broker_serves_within_a_with_block_only() -> None:
    with kqueue.Broker() as broker:
        assert broker.bootstrap == f"127.0.0.1:{broker.port}"
        assert broker.is_running
        bootstrap = broker.bootstrap
        broker.create_topic("orders")
        produce(bootstrap, "orders", b"hello")
        assert b"hello" in fetch(bootstrap, "orders")
        assert bootstrap in repr(broker)
    assert not broker.is_running
    with pytest.raises(ConnectionRefusedError):
        ask(bootstrap, "ApiVersions", 0)
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.bootstrap  # noqa: B018
    with pytest.raises(RuntimeError, match="the broker is not running"):
        broker.create_topic("more")


def test_broker_serves_within_an_async_with_block() -> None:
    async def test() -> None:
        async with kqueue.Broker() as broker:
            await asyncio.to_thread(broker.create_topic, "orders")
            assert await asyncio.to_thread(topic_error, broker.bootstrap, "orders") == 0

    asyncio.run(test())


def test_start_and_stop_may_be_called_twice() -> None:
    broker = kqueue.Broker()
    broker.stop()
    assert broker.start() is broker
    port = broker.port
    assert broker.start().port == port
    broker.stop()
    broker.stop()


def test_a_folder_keeps_what_memory_forgets_at_a_stop(tmp_path: Path) -> None:
    for path in (tmp_path, None):
        broker = kqueue.Broker(path=path, auto_create_topics_enable=False)
        with broker:
            broker.create_topic("orders")
            produce(broker.bootstrap, "orders", b"hello")
        with broker:
            if path is None:
                assert topic_error(broker.bootstrap, "orders") == 3
            else:
                assert b"hello" in fetch(broker.bootstrap, "orders")


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_restart_keeps_port_and_data(storage: str, tmp_path: Path) -> None:
    with kqueue.Broker(tmp_path if storage == "disk" else None) as broker:
        bootstrap = broker.bootstrap
        broker.create_topic("orders")
        for number in range(3):
            produce(bootstrap, "orders", b"value %d" % number)
            broker.restart()
            assert broker.bootstrap == bootstrap
        records = fetch(bootstrap, "orders")
        assert all(b"value %d" % number in records for number in range(3))


def test_restart_starts_what_does_not_run() -> None:
    broker = kqueue.Broker()
    broker.restart()
    assert broker.is_running
    broker.stop()


def test_a_port_can_be_asked_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with kqueue.Broker(port=port) as broker:
        assert broker.port == port


def test_a_port_that_is_taken_leaves_no_new_folder(tmp_path: Path) -> None:
    with kqueue.Broker() as other, pytest.raises(ListenFailed):
        kqueue.Broker(tmp_path / "new" / "data", port=other.port).start()
    assert list(tmp_path.iterdir()) == []


def test_create_topic_takes_partitions_and_settings_and_reports_refusals() -> None:
    with kqueue.Broker() as broker:
        broker.create_topic("compacted", 3, cleanup_policy="compact", **{"max.message.bytes": 5000})
        topic = ask(broker.bootstrap, "Metadata", 1, topics=[MetadataRequestTopic(name="compacted")]).topics[0]
        assert len(topic.partitions) == 3
        config = broker._server.broker.topics.get("compacted").config
        assert (config["cleanup.policy"], config["max.message.bytes"]) == (["compact"], 5000)
        with pytest.raises(TopicAlreadyExists):
            broker.create_topic("compacted")
        with pytest.raises(InvalidConfig):
            broker.create_topic("other", no_such_setting=1)


def test_failed_start_raises_in_the_caller(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="did you mean"):
        kqueue.Broker(log_segment_byte=5)
    with kqueue.Broker(tmp_path) as broker:
        with pytest.raises(FolderInUse, match=str(tmp_path)):
            kqueue.Broker(tmp_path).start()
        with pytest.raises(ListenFailed, match="Address already in use"):
            kqueue.Broker(port=broker.port).start()
        other = kqueue.Broker(tmp_path)
        with pytest.raises(FolderInUse):
            other.start()
        assert not other.is_running
        broker.stop()
        with other:
            assert other.is_running


def test_ten_brokers_in_one_process_do_not_disturb_each_other(tmp_path: Path) -> None:
    brokers = [kqueue.Broker(tmp_path / str(number) if number % 2 else None) for number in range(10)]
    try:
        for number, broker in enumerate(brokers):
            broker.start()
            broker.create_topic("mine")
            produce(broker.bootstrap, "mine", b"of broker %d." % number)
        assert len({broker.port for broker in brokers}) == 10
        for broker in brokers[::3]:
            broker.stop()
        for number, broker in enumerate(brokers):
            if broker.is_running:
                records = fetch(broker.bootstrap, "mine")
                assert [other for other in range(10) if b"of broker %d." % other in records] == [number]
    finally:
        for broker in brokers:
            broker.stop()


def test_methods_may_be_called_from_many_threads_at_once() -> None:
    with kqueue.Broker() as broker:
        threads = [threading.Thread(target=broker.create_topic, args=(f"topic-{number}",)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [topic_error(broker.bootstrap, f"topic-{number}") for number in range(8)] == [0] * 8


def in_child(broker: kqueue.Broker, results: multiprocessing.Queue[object]) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results.put(topic_error(broker.bootstrap, "orders"))
            broker.stop()
            with pytest.raises(RuntimeError, match="forked from"):
                broker.create_topic("more")
            results.put(broker.is_running)
    except BaseException as error:
        results.put(repr(error))
        raise


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_can_connect_to_it_but_not_stop_it() -> None:
    context = multiprocessing.get_context("fork")
    with kqueue.Broker() as broker:
        broker.create_topic("orders")
        results = context.Queue()
        child = context.Process(target=in_child, args=(broker, results))
        child.start()
        assert results.get(timeout=60) == 0
        assert results.get(timeout=60) is True
        child.join(60)
        assert child.exitcode == 0
        child.close()
        results.close()
        results.join_thread()
        assert topic_error(broker.bootstrap, "orders") == 0


def wait_in_child(is_there: Any, go_on: Any) -> None:
    is_there.set()
    go_on.wait(60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_does_not_hold_the_port() -> None:
    with kqueue.Broker() as broker:
        context = multiprocessing.get_context("fork")
        is_there, go_on = context.Event(), context.Event()
        child = context.Process(target=wait_in_child, args=(is_there, go_on))
        child.start()
        assert is_there.wait(60)
        port = broker.port
        broker.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        go_on.set()
        child.join(60)
        child.close()


LEFT_RUNNING = """
import sys, kqueue
broker = kqueue.Broker(sys.argv[1]).start()
broker.create_topic("orders")
print(broker.bootstrap)
"""


@pytest.mark.long
def test_a_broker_left_running_is_stopped_cleanly_at_the_end_of_the_interpreter(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", LEFT_RUNNING, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / ".kafka_cleanshutdown").exists()


def test_a_caller_who_is_interrupted_while_it_starts_leaves_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import Future

    def interrupted(self: Future[None], timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    broker = kqueue.Broker()
    with monkeypatch.context() as patch:
        patch.setattr(Future, "result", interrupted)
        with pytest.raises(KeyboardInterrupt):
            broker.start()
    assert not broker.is_running
