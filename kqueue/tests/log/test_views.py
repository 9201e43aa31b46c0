"""Views of logs and segments, as policies get them; what policies make of them is in `policies`."""

from __future__ import annotations

import pickle

from kqueue.log.views import LogView, SegmentView
from kqueue.tests.log.helpers import START_MS, append, open_log


def test_a_view_holds_the_offsets_sizes_and_times_of_each_segment() -> None:
    log = open_log(segment_bytes=200)
    for number in range(6):
        append(log, b"x" * 40, time_ms=START_MS + number)
    views = log.segment_views()
    assert [(view.base_offset, view.end_offset) for view in views] == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]
    assert (
        [view.max_timestamp for view in views] == [view.time_ms for view in views] == [START_MS + n for n in range(6)]
    )
    assert [view.is_active for view in views] == [False] * 5 + [True]
    assert {view.first_timestamp for view in views} == {-1}
    assert [view.first_timestamp for view in log.segment_views(3)] == [
        -1,
        -1,
        -1,
        START_MS + 3,
        START_MS + 4,
        START_MS + 5,
    ]


def test_a_log_view_counts_the_bytes_of_its_segments_and_goes_to_other_processes() -> None:
    segments = (SegmentView(0, 5, 100, -1, False, 0), SegmentView(5, 9, 20, -1, True, 0))
    view = LogView("t", 0, segments, 0, 9, 9, 0)
    assert view.size == 120
    assert pickle.loads(pickle.dumps(view)) == view
