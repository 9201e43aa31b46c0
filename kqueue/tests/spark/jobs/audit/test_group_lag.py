from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import kqueue
from kqueue.client import Client, TopicPartition
from kqueue.spark.errors import OptionError
from kqueue.spark.jobs.audit.compaction_state import compaction
from kqueue.spark.jobs.audit.group_lag import GroupLag, group_lags
from kqueue.spark.source.reader_factory import open_reader
from kqueue.spark.source.record_reader import RecordReader
from kqueue.tests.spark.source.logs import BEGIN_MS, options, send

T0, T1, KEYS = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("keys", 0)
ENDS = {T0: 20, T1: 0, KEYS: 10}


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
            with closing(open_reader(options(broker, subscribePattern=".*"))) as found:
                yield found
            return
    with closing(open_reader(options(path=tmp_path / "data"))) as found:
        yield found


def test_how_far_groups_are_behind(reader: RecordReader) -> None:
    found = group_lags(reader, (), reader.earliest(ENDS), ENDS)
    assert found == [
        GroupLag("early", "t", 0, 20, 20, 0, 0, 0, None),
        GroupLag("early", "t", 1, 5, 0, 0, 0, 5, None),
        GroupLag("late", "keys", 0, 7, 10, 3, 0, 0, BEGIN_MS + 7),
        GroupLag("late", "t", 0, 2, 20, 16, 2, 0, BEGIN_MS + 4),
    ]
    assert [one.age_ms(BEGIN_MS + 107) for one in found] == [None, None, 100, 103]
    assert group_lags(reader, ["late"], reader.earliest(ENDS), {T0: 20}) == found[3:]
    with pytest.raises(OptionError, match="there is no group 'lat' .*; did you mean 'late'"):
        group_lags(reader, ["lat"], {}, ENDS)


def test_where_compaction_may_have_been(reader: RecordReader) -> None:
    found = compaction(reader, ["keys", "t"])
    assert (found.policies["keys"], found.policies["t"]) == ("compact,delete", "delete")
    assert found.may_have_removed(KEYS)
    assert not found.may_have_removed(T0)
