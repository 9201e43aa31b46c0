from __future__ import annotations

from kqueue.tests.api.state_requests import UNKNOWN_ID, delete, initialize, new_client, state_of


def test_a_state_is_deleted_once_or_more() -> None:
    client = new_client()
    initialize(client)
    for _ in range(2):
        assert delete(client).error_code == 0
        assert state_of(client) is None
    assert delete(client, id=UNKNOWN_ID).error_code == 0, "its topic may be gone"
    assert len(client.sim.broker.share.coordinator) == 0
