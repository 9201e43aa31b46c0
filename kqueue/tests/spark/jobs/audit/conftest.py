from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client
from kqueue.spark.source.reader_factory import open_reader
from kqueue.spark.source.record_reader import RecordReader
from kqueue.tests.spark.jobs.audit.sample_audits import KEYS, T0, T1
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send


@pytest.fixture(params=["wire", "folder"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RecordReader]:
    """t-0 with 20 records, of which 4 are deleted, and keys-0 with 10, over a broker, or in its
    folder after it has stopped.
    """
    with kqueue.Broker(tmp_path / "data") as broker:
        broker.create_topic("t", 2)
        broker.create_topic("keys", 1, cleanup_policy="compact,delete")
        for number in range(2):
            send(broker, "t", 0, 10, time_ms=BEGIN_MS + 100 * number)
        send(broker, "keys", 0, 10)
        with Client(broker.bootstrap) as client:
            client.delete_records({T0: 4})
            client.commit("late", {T0: 2, KEYS: 7})
            client.commit("early", {T0: 20, T1: 5})
        if request.param == "wire":
            with closing(open_reader(options(broker, subscribePattern=".*"))) as record_reader:
                yield record_reader
            return
    with closing(open_reader(options(path=tmp_path / "data"))) as record_reader:
        yield record_reader
