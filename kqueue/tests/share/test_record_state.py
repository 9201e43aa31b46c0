"""The table of states."""

from __future__ import annotations

import pytest

from kqueue.share.record_state import DEAD, EVENTS, TERMINAL, AcknowledgeType, RecordEvent, RecordState, after


def test_terminal_states_have_no_transitions() -> None:
    assert frozenset({RecordState.ACKNOWLEDGED, RecordState.ARCHIVED}) == TERMINAL
    with pytest.raises(AssertionError, match="ACKNOWLEDGED can't be acquired"):
        after(RecordState.ACKNOWLEDGED, RecordEvent.ACQUIRE)


def test_each_acknowledgement_but_a_renewal_ends_an_acquisition() -> None:
    ends = {type: after(RecordState.ACQUIRED, event) for type, event in EVENTS.items()}
    assert ends == {
        AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
        AcknowledgeType.RELEASE: RecordState.AVAILABLE,
        AcknowledgeType.REJECT: RecordState.ARCHIVED,
        AcknowledgeType.GAP: RecordState.ARCHIVED,
    }
    assert EVENTS[AcknowledgeType.GAP] not in DEAD, "there is no record to keep"
