"""The isolation level of a Fetch or ListOffsets (KIP-98)."""

from __future__ import annotations

from kqueue.base.errors import InvalidRequest

READ_UNCOMMITTED = 0
READ_COMMITTED = 1


def is_read_committed(isolation_level: int) -> bool:
    """Return whether open and aborted transactions are to be hidden from the client.

    Raises: InvalidRequest: there is no such level; it might be a stricter one.
    """
    if isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        raise InvalidRequest(
            f"expected isolation level {READ_UNCOMMITTED} or {READ_COMMITTED}, found {isolation_level}"
        )
    return isolation_level == READ_COMMITTED
