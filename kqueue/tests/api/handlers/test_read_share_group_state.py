from __future__ import annotations

from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.api.state_requests import initialize, new_client, read, state_of, write
from kqueue.tests.broker.test_broker import kill
from kqueue.wire.error_codes import ErrorCode


def test_a_leader_reads_what_is_persisted_and_fences_those_before() -> None:
    client = new_client()
    assert read(client).error_code == ErrorCode.INVALID_REQUEST, "it has no state"
    initialize(client)
    write(client, (7, 9, 2, 1), (10, 10, 0, 3))
    persisted = read(client, 4)
    assert (persisted.error_code, persisted.state_epoch, persisted.start_offset) == (0, 1, 5)
    assert [
        (one.first_offset, one.last_offset, one.delivery_state, one.delivery_count) for one in persisted.state_batches
    ] == [(7, 9, 2, 1), (10, 10, 0, 3)]
    assert state_of(client).leader_epoch == 4  # type: ignore[union-attr]
    refused = read(client, 3)
    assert (refused.error_code, refused.state_batches) == (ErrorCode.FENCED_LEADER_EPOCH, [])
    assert write(client, (7, 7, 2, 1), leader_epoch=3).error_code == ErrorCode.FENCED_LEADER_EPOCH
    assert read(client).error_code == 0, "-1 is not checked"
    assert read(client, -7).error_code == 0
    assert read(client, 4).error_code == 0


def test_a_leader_epoch_survives_a_crash() -> None:
    client = new_client(**{"kqueue.storage": "local"})
    initialize(client)
    read(client, 4)
    before = state_of(client)
    kill(client.sim)
    again = SimulatedClient(sim=client.sim.restarted())
    assert state_of(again) == before
    assert read(again, 3).error_code == ErrorCode.FENCED_LEADER_EPOCH
