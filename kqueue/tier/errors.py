"""Errors of tiered storage."""

from __future__ import annotations

from kqueue.base.errors import KqueueError


class TierError(KqueueError):
    """Tiered storage can't do what was asked for, and a retry will not help: a wrong URL, a closed
    store, a plugin that broke its contract.

    Base class of the errors below. Messages name the store without credentials, and the key.
    """


class TierUnavailable(TierError):
    """The store did not answer, or answered that it can't now: 5xx, throttled, timed out, a failed
    disk, an open circuit. The call may be repeated.

    A put or delete that raises it may have taken place, and may still take place later.
    """


class TierDenied(TierError):
    """The store refused the credentials, or there are none. Nothing was changed.

    Expired credentials may be renewed outside of kqueue: try again after minutes, not at once.
    """


class ObjectNotFound(TierError):
    """The store has no object of this key."""


class ObjectChanged(TierError):
    """A conditional put was refused: the object has another version than expected, or exists.

    After a `TierUnavailable` of the same put its own change may be what has been changed since:
    read the object before trying again.
    """


class TierCorrupt(TierError):
    """What was read is not what was written: too short, too long, or with a wrong checksum."""


class LeaderFenced(TierError):
    """A leader of a later epoch writes the manifest: this broker leads the partition no more."""
