"""The messages of a store to its committer process, and the answers; see `sqlite_committer`."""

from __future__ import annotations

from typing import Any, NamedTuple

from kqueue.metadata.sqlite_sessions import SessionRow


class Caller(NamedTuple):
    """The store session that makes a request.

    Attributes:
        own_epochs: of the live sessions of the store that asks.
        session: by which it asks; None: by none.
        term_epoch: of the session's term, by which it asks; None: by the session.
    """

    own_epochs: frozenset[int]
    session: SessionRow | None = None
    term_epoch: int | None = None


class Answer(NamedTuple):
    """The result of a request. `lost_session`, `lost_term`: it was refused because that has
    ended.
    """

    result: Any
    error: Exception | None = None
    lost_session: bool = False
    lost_term: bool = False
