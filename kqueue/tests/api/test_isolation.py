from __future__ import annotations

import pytest

from kqueue.api.isolation import is_read_committed
from kqueue.base.errors import InvalidRequest
from kqueue.tests.api.fetch_client import fetch, want
from kqueue.tests.api.handlers.test_list_offsets import LATEST, partition_response
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


def test_the_two_levels() -> None:
    assert [is_read_committed(level) for level in (0, 1)] == [False, True]


@for_each("level", [-1, 2, 127])
def test_an_unknown_level_serves_nothing(level: int) -> None:
    """It might ask for more than is known here, so nothing open or aborted is shown."""
    client = SimulatedClient()
    client.sim.topic("t")
    with pytest.raises(InvalidRequest, match=f"expected isolation level 0 or 1, found {level}"):
        fetch(client, 11, want(), isolation_level=level)
    assert partition_response(client, 8, LATEST, isolation=level).error_code == ErrorCode.INVALID_REQUEST
