"""Exactly once over processes: tellers and the broker are killed with SIGKILL at random times, and
no order is lost, half done or done twice.

``--transfer-seconds=600`` makes a long run of it, beside CI.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from compat_tests.clients import protocol_client
from compat_tests.clients.adapters.contract import RECONNECTING_TRANSACTIONS, TRANSACTIONS, Client, Place, Record
from compat_tests.clients.brokers import EXTERNAL, killable
from compat_tests.clients.cluster import ClusterOfProcesses
from compat_tests.clients.conftest import ClientFactory
from compat_tests.kafka.serving import Process
from compat_tests.waits import eventually

pytestmark = pytest.mark.one_client

END_TXN, TXN_OFFSET_COMMIT = 26, 28
ACCOUNTS = 10
ORDERS_PER_S = 25
PAUSE_S = (0.3, 1.5)
DRAIN_S = 60
Name = Callable[[str], str]
Crashing = Process | ClusterOfProcesses


class Teller:
    """A teller's process, started again after each kill."""

    def __init__(self, log: Path, *words: str) -> None:
        self._log = log
        self._command = [sys.executable, "-m", "compat_tests.clients.teller", *words]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def restart(self) -> None:
        self.kill()
        self._process = self._start()


@pytest.fixture
def bank(storage: str, tmp_path: Path, pytestconfig: pytest.Config) -> Iterator[tuple[str, int, Crashing | None]]:
    """Yield the address, the shortest session, and the process of the broker that may be killed."""
    if storage == EXTERNAL:
        session_ms = pytestconfig.getoption("session_ms") or 6_000
        yield pytestconfig.getoption("bootstrap"), session_ms, None
        return
    with killable(storage, tmp_path) as process:
        yield process.bootstrap, 2_000, process


@pytest.mark.long
def test_money_transfers(
    bank: tuple[str, int, Crashing | None],
    client: Client,
    connect: ClientFactory,
    name: Name,
    needs: Callable[[str], None],
    tmp_path: Path,
    pytestconfig: pytest.Config,
) -> None:
    needs(TRANSACTIONS)
    needs(RECONNECTING_TRANSACTIONS)
    bootstrap, session_ms, process = bank
    if {END_TXN, TXN_OFFSET_COMMIT} - set(protocol_client.served_apis(bootstrap)):
        pytest.skip("the broker does not serve transactions")
    seconds = pytestconfig.getoption("transfer_seconds")
    rng = random.Random(seconds)
    orders, entries = name("orders"), name("entries")
    for topic in (orders, entries):
        protocol_client.create_topic(bootstrap, topic, 2)
    # aiokafka names only its group in a transaction: two members of it are not safe from each other
    count = 1 if client.name == "aiokafka" else 2
    placed = 0
    with ExitStack() as stack:
        tellers = []
        for number in range(count):
            words = (client.name, bootstrap, name("teller"), orders, entries, f"tellers-of-{orders}", str(session_ms))
            teller = Teller(tmp_path / f"teller-{number}.log", *words)
            stack.callback(teller.kill)
            tellers.append(teller)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            placed = place_orders(connect, bootstrap, orders, placed, rng)
            time.sleep(rng.uniform(*PAUSE_S))
            if process is not None and rng.random() < 0.5:
                process.crash()
            else:
                rng.choice(tellers).restart()
        for teller in tellers:  # kafka-python may wait for ever for a coordinator that was killed
            teller.restart()
        records = all_entries(connect, bootstrap, entries, 2 * placed)
    check(records, placed)
    if process is not None:
        process.crash()
        check(all_entries(connect, bootstrap, entries, 2 * placed), placed)


def place_orders(connect: ClientFactory, bootstrap: str, topic: str, begin: int, rng: random.Random) -> int:
    """Hand in some orders; returns the number of all."""
    producer = connect.producer(bootstrap)
    for number in range(begin, begin + ORDERS_PER_S):
        source, target = rng.sample(range(ACCOUNTS), 2)
        value = b"%d %d %d %d" % (number, source, target, rng.randrange(1, 1000))
        producer.send(topic, value, partition=number % 2).result()
    producer.close()
    return begin + ORDERS_PER_S


def all_entries(connect: ClientFactory, bootstrap: str, topic: str, count: int) -> list[Record]:
    """Wait until a read_committed consumer finds this many, and no more."""
    consumer = connect.consumer(bootstrap, assign=[Place(topic, 0), Place(topic, 1)], read_committed=True)
    records: list[Record] = []

    def enough() -> bool:
        records.extend(consumer.poll(0.5))
        return len(records) >= count

    eventually(enough, f"{count} entries", DRAIN_S)
    records.extend(consumer.poll(1))
    consumer.close()
    return records


def check(records: list[Record], orders: int) -> None:
    """Assert that each order was carried out once and as a whole."""
    numbers = Counter(int((record.value or b"").split()[0]) for record in records)
    assert numbers == dict.fromkeys(range(orders), 2)
    assert sum(int((record.value or b"").split()[1]) for record in records) == 0
