"""Errors of the offline tools for log folders."""

from __future__ import annotations

from kqueue.base.errors import KqueueError


class NotALogFolder(KqueueError):
    """A path that is neither a partition's folder nor a data folder."""


class RepairRefused(KqueueError):
    """A repair that would not be safe to begin: no place for the copy, too little room, or nothing
    that can be locked.
    """
