from __future__ import annotations

from kqueue.tests.api.state_requests import initialize, new_client, state_of
from kqueue.tests.tables import for_each
from kqueue.wire.error_codes import ErrorCode


def test_a_share_partition_gets_a_state() -> None:
    client = new_client()
    assert initialize(client).error_code == 0
    initialized = state_of(client)
    assert initialized is not None
    assert (initialized.state_epoch, initialized.start_offset, list(initialized.batches)) == (1, 5, [])
    assert initialize(client, 2, 9).error_code == 0
    refused = initialize(client, 1, 0)
    assert refused.error_code == ErrorCode.FENCED_STATE_EPOCH
    assert "expected state epoch 2" in refused.error_message
    assert state_of(client).start_offset == 9  # type: ignore[union-attr]


@for_each("state_epoch, start_offset", [(-1, 0), (0, -2)])
def test_invalid_epoch_or_offset_is_refused(state_epoch: int, start_offset: int) -> None:
    client = new_client()
    assert initialize(client, state_epoch, start_offset).error_code == ErrorCode.INVALID_REQUEST
    assert state_of(client) is None


def test_the_number_of_share_partitions_is_bounded() -> None:
    client = new_client(**{"kqueue.max.share.partitions": 1})
    assert initialize(client).error_code == 0
    assert initialize(client, partition=1).error_code == ErrorCode.POLICY_VIOLATION
