from __future__ import annotations

from kqueue.spark.jobs.audit.compaction_state import compaction
from kqueue.spark.source.record_reader import RecordReader
from kqueue.tests.spark.jobs.audit.sample_audits import KEYS, T0


def test_policy_and_checkpoint_tell_whether_compaction_may_have_removed_records(reader: RecordReader) -> None:
    states = compaction(reader, ["keys", "t"])
    assert (states.policies["keys"], states.policies["t"]) == ("compact,delete", "delete")
    assert states.may_have_removed(KEYS)
    assert not states.may_have_removed(T0)
