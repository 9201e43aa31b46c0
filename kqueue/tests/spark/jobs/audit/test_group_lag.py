from __future__ import annotations

import pytest

from kqueue.spark.errors import OptionError
from kqueue.spark.jobs.audit.group_lag import GroupLag, check_groups, group_lags
from kqueue.spark.source.record_reader import RecordReader
from kqueue.tests.spark.jobs.audit.sample_audits import KEYS, T0, T1
from kqueue.tests.spark.source.logs import BEGIN_MS

ENDS = {T0: 20, T1: 0, KEYS: 10}


def test_lag_of_each_group_and_partition_is_reported(reader: RecordReader) -> None:
    lags = group_lags(reader, (), reader.earliest(ENDS), ENDS)
    assert lags == [
        GroupLag("early", "t", 0, 20, 20, 0, 0, 0, None),
        GroupLag("early", "t", 1, 5, 0, 0, 0, 5, None),
        GroupLag("late", "keys", 0, 7, 10, 3, 0, 0, BEGIN_MS + 7),
        GroupLag("late", "t", 0, 2, 20, 16, 2, 0, BEGIN_MS + 4),
    ]
    assert [candidate.age_ms(BEGIN_MS + 107) for candidate in lags] == [None, None, 100, 103]
    assert group_lags(reader, ["late"], reader.earliest(ENDS), {T0: 20}) == lags[3:]
    with pytest.raises(OptionError, match="there is no group 'lat' .*; did you mean 'late'"):
        group_lags(reader, ["lat"], {}, ENDS)


def test_groups_are_checked_without_their_lags(reader: RecordReader) -> None:
    check_groups(reader, ["late", "early"])
    with pytest.raises(OptionError, match="there is no group 'erly' .*; did you mean 'early'"):
        check_groups(reader, ["late", "erly"])
