"""Errors of streams groups."""

from __future__ import annotations

from kqueue.base.errors import RequestRefused


class StreamsInvalidTopology(RequestRefused):
    """The topology of a streams group can't be run, whatever topics there are."""
