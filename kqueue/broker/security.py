"""What decides who may do what on one broker."""

from __future__ import annotations

from dataclasses import dataclass

from kqueue.security.authorizer import Authorizer


@dataclass(slots=True)
class BrokerSecurity:
    """Set before the broker starts.

    `authorizer` None: every client may do everything.
    """

    authorizer: Authorizer | None = None
