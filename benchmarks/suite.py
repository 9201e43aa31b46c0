"""A suite of 200 tests that each use a broker, run by pytest in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.results import Figure, Row
from kqueue.testing.process_environment import process_environment

TESTS = 200
TIMEOUT_S = 600
_SHARED = """
import pytest
from kafka import KafkaConsumer, KafkaProducer

@pytest.mark.parametrize("number", range({tests}))
def test_order(kafka_broker, kafka_topic, number):
    with KafkaProducer(bootstrap_servers=kafka_broker.bootstrap) as producer:
        producer.send(kafka_topic, b"%d" % number).get(10)
    kafka_broker.assert_produced(kafka_topic, [b"%d" % number])
"""
_OWN = """
import pytest
from kafka import KafkaProducer
from kqueue import Broker

@pytest.mark.parametrize("number", range({tests}))
def test_order(number):
    with Broker() as broker:
        broker.create_topic("orders")
        with KafkaProducer(bootstrap_servers=broker.bootstrap) as producer:
            producer.send("orders", b"%d" % number).get(10)
        broker.assert_produced("orders", [b"%d" % number])
"""


def row() -> Row:
    """Measure the suite with the broker of the fixture, and with one for each test."""
    return Row(
        f"a suite of {TESTS} tests through kafka-python",
        [
            Figure(_seconds(_SHARED), "s, with the fixture kafka_broker"),
            Figure(_seconds(_OWN), "s, with a Broker() for each test"),
        ],
        "a test produces a record and asserts what is stored; with the start of pytest",
    )


def _seconds(program: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "test_orders.py").write_text(program.format(tests=TESTS))
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "ignore", folder],
            cwd=folder,
            env=process_environment(PYTHONPATH=str(Path(__file__).parents[1])),
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode or f"{TESTS} passed" not in done.stdout:
            raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
        return time.perf_counter() - began
