"""Keys and updates of share partitions."""

from __future__ import annotations

from kqueue.share.record_state import RecordState
from kqueue.share.share_state import ShareState, ShareUpdate, updated
from kqueue.share.state_batches import StateBatch
from kqueue.tests.share.support import KEY


def test_the_coordinator_key_is_kafkas() -> None:
    assert KEY.coordinator_key == "g:AAECAwQFBgcICQoLDA0ODw:0"


def test_an_update_leaves_what_it_does_not_name() -> None:
    batch = StateBatch(5, 6, RecordState.AVAILABLE, 1)
    state = ShareState(3, [batch], 2, leader_epoch=7)
    assert updated(state, ShareUpdate(-1, [])) == state
    assert updated(state, ShareUpdate(6, [], 0, 8)) == ShareState(6, [batch._replace(first=6)], 0, leader_epoch=8)
