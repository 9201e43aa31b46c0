from __future__ import annotations

from kqueue.tests.api.state_requests import initialize, new_client, summarize, write
from kqueue.tests.tables import for_each


@for_each("version", [0, 1])
def test_a_summary_has_no_batches(version: int) -> None:
    client = new_client()
    nothing = summarize(client, version)
    assert (nothing.error_code, nothing.start_offset, nothing.state_epoch) == (0, -1, 0)
    initialize(client)
    write(client, (5, 6, 2, 1), leader_epoch=3, start_offset=5, delivery_complete_count=2)
    summary = summarize(client, version)
    assert (summary.error_code, summary.start_offset, summary.state_epoch, summary.leader_epoch) == (0, 5, 1, 3)
    assert summary.delivery_complete_count == (2 if version else -1)
