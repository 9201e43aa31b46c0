"""Errors about topics and groups that do not exist, with the most similar name that does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from kqueue.base.names import did_you_mean
from kqueue.cli.client_access import client_security

if TYPE_CHECKING:
    from kqueue.client import Client

TIMEOUT_MS = 3000


def no_topic(bootstrap: str, name: str) -> str:
    """Return the message for a topic that does not exist."""
    return f"there is no topic {name!r}{similar_topic(bootstrap, name) or '; `kqueue topics list` shows all topics'}"


def no_group(bootstrap: str, name: str) -> str:
    """Return the message for a group that does not exist."""
    return f"there is no group {name!r}{similar_group(bootstrap, name) or '; `kqueue groups list` shows all groups'}"


def similar_topic(bootstrap: str, name: str) -> str:
    """Return a suggestion, ``; did you mean 'x'?``, or "" if no name is similar or known."""
    return did_you_mean(name, _asked(bootstrap, lambda client: client.metadata().topics))


def similar_group(bootstrap: str, name: str) -> str:
    """Return a suggestion as `similar_topic` does."""
    return did_you_mean(name, _asked(bootstrap, lambda client: client.groups()))


def _asked(bootstrap: str, ask: Callable[[Client], Iterable[str]]) -> list[str]:
    """Return what the broker answers; [] after a failure, because the error itself matters more."""
    from kqueue.base.errors import KqueueError
    from kqueue.client import Client

    with (
        contextlib.suppress(KqueueError),
        Client(bootstrap, client_id="kqueue-cli", security=client_security(), timeout_ms=TIMEOUT_MS) as client,
    ):
        return list(ask(client))
    return []
