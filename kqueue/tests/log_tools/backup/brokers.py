"""A small broker to back up, and damage of its backup."""

from __future__ import annotations

from pathlib import Path

import kqueue

SMALL = {"log.segment.bytes": 1000, "log.flush.interval.messages": 1}
VALUES = [f"record {number}" for number in range(300)]


def filled(path: Path) -> kqueue.Broker:
    broker = kqueue.Broker(path, settings=SMALL).start()
    broker.create_topic("orders", partitions=2)
    for at in range(0, len(VALUES), 20):
        broker.topics["orders"].produce_all(VALUES[at : at + 20], partition=at // 20 % 2)
    return broker


def values_of(broker: kqueue.Broker) -> list[str]:
    return sorted(record.value.decode() for record in broker.topics["orders"].records())


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 255
    path.unlink()  # the name of a link is not the original's
    path.write_bytes(data)


def cut(path: Path) -> None:
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data[:-1])
