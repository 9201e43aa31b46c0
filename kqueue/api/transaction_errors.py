"""Errors of transactions that older clients do not know, as the codes that they handle alike."""

from __future__ import annotations

from kqueue.api.errors import code_of
from kqueue.base.errors import ProducerFenced
from kqueue.wire.error_codes import ErrorCode


def transaction_code(error: BaseException | None, *, knows_fenced: bool) -> ErrorCode:
    """Return the code for a client.

    Args:
        knows_fenced: the request's version has PRODUCER_FENCED (KIP-588); an older one has
            INVALID_PRODUCER_EPOCH for it.
    """
    if isinstance(error, ProducerFenced) and not knows_fenced:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code_of(error)
