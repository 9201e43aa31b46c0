"""Steps that many scenarios share."""

from __future__ import annotations

import time
from collections.abc import Iterable

from compat_tests.clients.adapters.contract import Consumer, PendingSend, Place, Producer, Record
from compat_tests.waits import HangLimit

COLLECT_S = 60
POLL_S = 1.0  # enough for a join under load: kafka-python 3 abandons a join when its poll times out


def collect(consumer: Consumer, count: int, timeout_s: float = COLLECT_S) -> list[Record]:
    """Poll until `count` records are received; fail if fewer or more arrive in time."""
    records: list[Record] = []
    limit = HangLimit(f"{count} records", timeout_s)
    while len(records) < count:
        limit.check(len(records))
        records += consumer.poll(POLL_S)
    assert len(records) == count, f"{count} records expected, {len(records)} found"
    return records


def collect_all(consumer: Consumer, expected: set[tuple[Place, bytes]]) -> None:
    """Poll until all these values have come, and no other. Some may come twice: a group reads again
    what it has not committed, when it knows more of its topics or a member was slow.
    """
    missing = set(expected)
    limit = HangLimit(f"{len(expected)} records", COLLECT_S)
    while missing:
        limit.check(f"all but {len(missing)}")
        for record in consumer.poll(POLL_S):
            assert (record.place, record.value) in expected
            missing.discard((record.place, record.value or b""))


def nothing_more(consumer: Consumer, seconds: float = 0.4) -> None:
    """Fail if a record arrives within this time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        records = consumer.poll(0.1)
        assert not records, f"{len(records)} records more than expected, the first: {records[0]}"


def send_all(
    producer: Producer, topic: str, values: Iterable[bytes], *, partition: int | None = None
) -> list[PendingSend]:
    """Send without waiting between records, then wait until all are confirmed."""
    pending = [producer.send(topic, value, partition=partition) for value in values]
    producer.flush()
    for each in pending:
        each.result()
    return pending


def numbered(count: int, stem: str = "value") -> list[bytes]:
    return [f"{stem}-{number}".encode() for number in range(count)]
