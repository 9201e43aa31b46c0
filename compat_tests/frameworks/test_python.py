"""Frameworks in Python do on kqueue what they promise, over a crash of the program too."""

from __future__ import annotations

import json
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

import kqueue
from compat_tests.frameworks.running import WAIT_S, Program, python
from compat_tests.frameworks.words import WordCount

ORDERS = 300
TASKS = 40
HELD = 10
"""The task at hand in the crash, as `programs/celery_app.py` has it."""


def needs(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"skipped, because there is no package {package}")


@pytest.mark.parametrize("client", ["aiokafka", "confluent"])
def test_faststream_confirms_each_order_over_a_crash(client: str, broker: kqueue.Broker, tmp_path: Path) -> None:
    needs("faststream")
    broker.create_topic("orders", 2)
    broker.create_topic("confirmations", 1)

    def send(first: int) -> None:
        orders = [json.dumps({"id": number, "customer": f"c{number}"}) for number in range(first, first + ORDERS)]
        broker.topics["orders"].produce_all(orders)

    def confirmed() -> dict[int, str]:
        answers = [json.loads(one.value or b"") for one in broker.topics["confirmations"].records()]
        return {one["order"]: one["text"] for one in answers}

    send(0)
    with Program(python("faststream_app", client, broker.bootstrap), tmp_path / "app") as program:
        program.wait_until(lambda: len(confirmed()) > 10, "the first confirmations")
        program.crash()
        send(ORDERS)
        program.wait_until(lambda: len(confirmed()) == 2 * ORDERS, "all confirmations")
        program.stop()
    assert confirmed() == {number: f"thank you, c{number}" for number in range(2 * ORDERS)}


def test_faust_counts_at_least_once_over_a_crash(broker: kqueue.Broker, tmp_path: Path) -> None:
    """A word that was counted and not committed before the crash is counted again."""
    needs("faust")
    job = WordCount(broker, int)
    command = python("faust_app", broker.bootstrap, "worker", "--without-web", "--loglevel=info")
    job.run_over_a_crash(Program(command, tmp_path / "app"))


def test_quix_streams_counts_exactly_once_over_a_crash(broker: kqueue.Broker, tmp_path: Path) -> None:
    needs("quixstreams")
    job = WordCount(broker, int)
    job.run_over_a_cut_transaction(Program(python("quix_app", broker.bootstrap), tmp_path / "app"))


def test_celery_does_all_tasks_but_one_over_a_crash(broker: kqueue.Broker, tmp_path: Path) -> None:
    """The task at hand in a crash may be lost, on Kafka too: kombu may have committed past it."""
    needs("celery")
    folder = tmp_path / "app"
    folder.mkdir()
    done = folder / "done"

    def send() -> None:
        command = python("celery_app", broker.bootstrap, "send", str(TASKS))
        subprocess.run(command, cwd=folder, timeout=WAIT_S, check=True)

    def numbers() -> list[int]:
        return [int(line) for line in done.read_text().split()] if done.exists() else []

    send()
    with Program(python("celery_app", broker.bootstrap, "work"), folder) as program:
        program.wait_until(lambda: len(numbers()) == HELD, "the first tasks")
        program.kill()
        (folder / "go").touch()
        program.start()
        program.wait_until(lambda: TASKS - 1 in numbers(), "the last task")
    assert set(range(TASKS)) - set(numbers()) <= {HELD}
