"""The states of a record in a share group, as a table.

    state          meaning                                                       persisted
    AVAILABLE      may be acquired                                               if it was delivered
    ACQUIRED       a member holds it until it acknowledges it or its lock ends   no
    ACKNOWLEDGED   accepted: never delivered again                               yes
    ARCHIVED       rejected, delivered too often, or missing in the log          yes

Source: KIP-932, Kafka's RecordState.
"""

from __future__ import annotations

import enum


class RecordState(enum.IntEnum):
    """The state of a record; the number is that of Kafka's records and messages."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


class AcknowledgeType(enum.IntEnum):
    """A member's answer for a record that it holds; the number is that of the messages."""

    GAP = 0
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4


class RecordEvent(enum.Enum):
    """The events that change a record's state."""

    ACQUIRE = "acquired"
    ACCEPT = "accepted"
    RELEASE = "released"
    REJECT = "rejected"
    EXHAUST = "released after its last delivery"
    SKIP = "found to be missing in the log"


S, E = RecordState, RecordEvent
TRANSITIONS: dict[RecordState, dict[RecordEvent, RecordState]] = {
    S.AVAILABLE: {E.ACQUIRE: S.ACQUIRED, E.SKIP: S.ARCHIVED},
    S.ACQUIRED: {
        E.ACCEPT: S.ACKNOWLEDGED,
        E.RELEASE: S.AVAILABLE,
        E.REJECT: S.ARCHIVED,
        E.EXHAUST: S.ARCHIVED,
        E.SKIP: S.ARCHIVED,
    },
    S.ACKNOWLEDGED: {},
    S.ARCHIVED: {},
}
EVENTS: dict[AcknowledgeType, RecordEvent] = {
    AcknowledgeType.GAP: E.SKIP,
    AcknowledgeType.ACCEPT: E.ACCEPT,
    AcknowledgeType.RELEASE: E.RELEASE,
    AcknowledgeType.REJECT: E.REJECT,
}
"""The event of each acknowledgement; RENEW extends the lock and changes no state."""
DEAD = frozenset({E.REJECT, E.EXHAUST})
"""Events after which a record goes to the group's dead-letter topic."""
TERMINAL = frozenset(state for state, events in TRANSITIONS.items() if not events)
"""States without an end: the group is done with the record."""


def after(state: RecordState, event: RecordEvent) -> RecordState:
    """Return the next state. An event that can't happen in `state` is a bug (AssertionError)."""
    assert event in TRANSITIONS[state], f"a record that is {state.name} can't be {event.value}"
    return TRANSITIONS[state][event]
