"""Errors of the offline tools for log folders."""

from __future__ import annotations

from kqueue.base.errors import CorruptData, KqueueError


class NotALogFolder(KqueueError):
    """The path is neither a partition folder nor a data folder."""


class RepairRefused(KqueueError):
    """A repair is not safe to begin: no folder for the backup, or not enough free space."""


class DecodeError(CorruptData):
    """The bytes are not in the format that the decoder reads."""
