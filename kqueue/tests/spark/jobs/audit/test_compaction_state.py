from __future__ import annotations

from kqueue.spark.jobs.audit.compaction_state import compaction
from kqueue.spark.source.record_reader import RecordReader
from kqueue.tests.spark.jobs.audit.sample_audits import KEYS, T0


def test_where_compaction_may_have_been(reader: RecordReader) -> None:
    found = compaction(reader, ["keys", "t"])
    assert (found.policies["keys"], found.policies["t"]) == ("compact,delete", "delete")
    assert found.may_have_removed(KEYS)
    assert not found.may_have_removed(T0)
