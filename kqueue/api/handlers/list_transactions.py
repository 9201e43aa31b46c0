"""ListTransactions (key 66): transactional ids, and the states of their transactions (KIP-664).

Versions 0 to 2:

    0       filters of states and producer ids
    1       filter of durations (KIP-994)
    2       filter of transactional ids by a pattern (KIP-1152)
"""

from __future__ import annotations

from kqueue.api.access import on_each
from kqueue.api.errors import code_of
from kqueue.api.request_context import RequestContext
from kqueue.api.slices import in_slices
from kqueue.base.errors import CoordinatorLoadInProgress
from kqueue.base.linear_regex import LinearRegex, PatternError
from kqueue.base.sliced_task import SlicedWork
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation, ResourceType
from kqueue.transactions.transaction_state import TransactionState as State
from kqueue.wire.error_codes import ErrorCode
from kqueue.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse, TransactionState

VERSIONS = (0, 2)
ACCESS = (on_each(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, "others are left out"),)
STATES = {state.value: state for state in State}


def handle(
    request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse | DelayedOperation[ListTransactionsResponse]:
    """Respond with the ids that pass every filter; an empty filter passes all."""
    return in_slices(context, _handle_sliced(request, context))


def _handle_sliced(request: ListTransactionsRequest, context: RequestContext) -> SlicedWork[ListTransactionsResponse]:
    try:
        pattern = LinearRegex(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except PatternError:
        return ListTransactionsResponse(error_code=ErrorCode.INVALID_REGULAR_EXPRESSION)
    states = {STATES[name] for name in request.state_filters if name in STATES}
    producer_ids = set(request.producer_id_filters)
    now_ms = context.broker.scheduler.clock.wall_ms()
    response = ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in STATES]
    )
    if request.state_filters and not states:
        return response
    try:
        every = context.broker.coordinators.transactions.all()
    except CoordinatorLoadInProgress as error:
        return ListTransactionsResponse(error_code=code_of(error))
    for metadata in every:
        yield None
        if states and metadata.state not in states:
            continue
        if producer_ids and metadata.producer_id not in producer_ids:
            continue
        if request.duration_filter >= 0 and now_ms - metadata.start_ms <= request.duration_filter:
            continue
        if pattern is not None and not (yield from pattern.fullmatch_sliced(metadata.transactional_id)):
            continue
        if not context.allows(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, metadata.transactional_id):
            continue
        response.transaction_states.append(
            TransactionState(
                transactional_id=metadata.transactional_id,
                producer_id=metadata.producer_id,
                transaction_state=metadata.state.value,
            )
        )
    return response
