from __future__ import annotations

from typing import Any

from kqueue.tests.api.state_requests import initialize, new_client, state_of, write
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


@for_each("version", [0, 1])
def test_changes_are_persisted_in_order(version: int) -> None:
    client = new_client()
    initialize(client)
    count = {"delivery_complete_count": 2} if version else {}
    assert write(client, (5, 6, 2, 1), (7, 7, 4, 2), version=version, start_offset=5, **count).error_code == 0
    assert write(client, (6, 6, 0, 2), version=version, leader_epoch=2).error_code == 0
    persisted = state_of(client)
    assert persisted is not None
    assert [(one.first, one.last, int(one.state), one.delivery_count) for one in persisted.batches] == [
        (5, 5, 2, 1),
        (6, 6, 0, 2),
        (7, 7, 4, 2),
    ]
    assert (persisted.start_offset, persisted.leader_epoch) == (5, 2)
    assert persisted.delivery_complete_count == (2 if version else 0), "as it was"


def test_fenced_writers_are_refused() -> None:
    client = new_client()
    assert write(client).error_code == ErrorCode.FENCED_STATE_EPOCH, "it has no state"
    initialize(client)
    assert write(client, state_epoch=0).error_code == ErrorCode.FENCED_STATE_EPOCH
    assert write(client, leader_epoch=3).error_code == 0
    assert write(client, leader_epoch=2).error_code == ErrorCode.FENCED_LEADER_EPOCH


@for_each(
    "batches, fields",
    [
        ([(5, 4, 2, 1)], {}),
        ([(-1, 4, 2, 1)], {}),
        ([(5, 6, 2, 1), (6, 7, 2, 1)], {}),
        ([(9, 9, 2, 1), (5, 6, 2, 1)], {}),
        ([(5, 6, 1, 1)], {}),
        ([(5, 6, 3, 1)], {}),
        ([(5, 6, 2, -1)], {}),
        ([], {"start_offset": -2}),
        ([], {"leader_epoch": -2}),
        ([], {"delivery_complete_count": -2}),
    ],
)
def test_invalid_batches_or_fields_are_refused(
    batches: list[tuple[int, int, int, int]], fields: dict[str, Any]
) -> None:
    client = new_client()
    initialize(client)
    before = state_of(client)
    assert write(client, *batches, **fields).error_code == ErrorCode.INVALID_REQUEST
    assert state_of(client) == before
