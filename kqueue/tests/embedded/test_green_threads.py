"""Embedded brokers in processes that gevent or eventlet has patched, each in one of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kqueue.embedded.green_threads import replaced_by
from kqueue.testing.process_environment import process_environment
from kqueue.tests.tables import for_each
from kqueue.tests.thorough import corners

GEVENT = "from gevent import monkey; monkey.patch_all({})"
EVENTLET = "import eventlet; eventlet.monkey_patch({})"
IMPORT = "import kqueue.app, kqueue.embedded"
WARNING = "so the broker is a greenlet, which a call of confluent-kafka (librdkafka) that waits blocks"
PROGRAM = """
import contextlib
import kqueue
from kqueue.client import Client
with kqueue.Broker() as broker:
    broker.create_topic("orders")
    with Client(broker.bootstrap) as client:
        client.metadata()
    broker.topics["orders"].produce(b"x")
    broker.assert_produced("orders", [b"x"], within_s=5)
    with contextlib.suppress(AssertionError):
        broker.assert_produced("orders", [b"y"], within_s=0.01)
        print("did not wait")
    broker.requests.wait_for("Metadata")
    broker.clock.advance(hours=1)
    broker.restart()
    broker.reset()
"""
SENT = """
from kafka import KafkaProducer
with kqueue.Broker() as broker, KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
    producer.send("orders", b"x").get(30)
    broker.assert_produced("orders", [b"x"], within_s=5)
"""

SEVERAL = """
import asyncio
import kqueue

async def produce(broker):
    await broker.aio.create_topic("orders")
    await asyncio.sleep(0.001)
    assert asyncio.get_running_loop() is asyncio.get_event_loop()
    await asyncio.to_thread(broker.topics["orders"].produce, b"x")
    await broker.wait_produced("orders", [b"x"])
    try:
        broker.assert_produced("orders", [b"x"], within_s=1)
    except RuntimeError:
        return
    print("blocked the loop")

with kqueue.Broker() as one, kqueue.Cluster(brokers=2) as cluster, kqueue.Broker() as other:
    cluster.create_topic("orders")
    cluster.wait_in_sync()
    for broker in (one, other):
        asyncio.run(produce(broker))
        broker.reset()
"""


def run(*lines: str) -> str:
    """Run a program; return what it wrote as warnings."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "\n".join([*lines, "print('end')"])],
        capture_output=True,
        text=True,
        timeout=60,
        env=process_environment(),
        check=False,
    )
    assert ran.stdout == "end\n", ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stderr


@pytest.mark.long
@for_each("patch", [GEVENT, EVENTLET])
def test_a_broker_works_as_a_greenlet_and_says_which_clients_block_it(patch: str) -> None:
    assert run(patch.format(""), PROGRAM, SENT).count(WARNING) == 1


@pytest.mark.long
@pytest.mark.parametrize("patch", corners([GEVENT, EVENTLET]))
def test_a_broker_works_where_threads_stay_as_they_are(patch: str) -> None:
    assert WARNING not in run(patch.format("thread=False"), PROGRAM)


@pytest.mark.long
@pytest.mark.parametrize("patch", corners([GEVENT, EVENTLET]))
def test_a_broker_works_where_the_process_is_patched_after_the_import(patch: str) -> None:
    assert WARNING in run(IMPORT, patch.format(""), PROGRAM)


@pytest.mark.long
@for_each("patch", [GEVENT, EVENTLET])
def test_several_brokers_and_event_loops_run_as_greenlets_of_one_thread(patch: str) -> None:
    assert run(patch.format(""), SEVERAL).count(WARNING) == 1


@pytest.mark.long
@for_each("patch", [GEVENT.format("queue=False"), GEVENT.format("time=False")])
def test_a_broker_works_as_a_greenlet_beside_modules_that_stay_as_they_are(patch: str) -> None:
    assert WARNING in run(patch, PROGRAM)


@pytest.mark.long
@for_each("patch", [GEVENT, EVENTLET])
def test_a_broker_that_would_block_its_greenlets_is_refused(patch: str) -> None:
    program = """
import kqueue
try:
    kqueue.Broker().start()
except RuntimeError as error:
    assert "but not the module select" in str(error), error
else:
    print("started")
"""
    assert run(patch.format("select=False"), program) == ""


def test_no_threads_are_replaced_here() -> None:
    assert replaced_by() is None
