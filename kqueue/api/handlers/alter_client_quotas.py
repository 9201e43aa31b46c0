"""AlterClientQuotas (key 49): set or remove quotas of users, client ids and addresses (KIP-546).

Versions 0 and 1: 1 flexible encoding. An entity whose change is invalid is refused alone, and keeps
all its quotas; the others are stored together. Source: Kafka's ClientQuotaControlManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext, error_of, wait_for
from kqueue.base.errors import InvalidRequest, KqueueError
from kqueue.broker.purgatory import DelayedOperation
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryDataInRequest,
    EntryDataInResponse,
)

if TYPE_CHECKING:
    from kqueue.broker.access.client_quotas import QuotaChange
    from kqueue.security.quotas import QuotaEntity

VERSIONS = (0, 1)
ITEM_WEIGHT = 50
ACCESS = (on_cluster(AclOperation.ALTER_CONFIGS),)
ENTRIES_MAX = 1_000
"""Entities of one request; they are stored in one commit."""
TIMEOUT_MS = 30_000
"""Wait for the store; the request has no timeout of its own."""
LATE = "the quotas were not stored in time; they may still be"

Refusals = dict[int, KqueueError]


def handle(
    request: AlterClientQuotasRequest, context: RequestContext
) -> AlterClientQuotasResponse | DelayedOperation[AlterClientQuotasResponse]:
    """Respond when the valid changes are stored."""
    if len(request.entries) > ENTRIES_MAX:
        raise InvalidRequest(f"{len(request.entries)} entities in one request, at most {ENTRIES_MAX} are taken")
    from kqueue.broker.access.client_quotas import changes_of  # on use: who sets no quota does not need them
    from kqueue.security.quotas import entity_of

    quotas = context.broker.security.quotas
    changes: dict[QuotaEntity, QuotaChange] = {}
    refusals: Refusals = {}
    for number, row in enumerate(request.entries):
        try:
            entity = entity_of((part.entity_type, part.entity_name) for part in row.entity)
            change = changes_of(((op.key, None if op.remove else op.value) for op in row.ops), entity)
            if entity in changes:
                raise InvalidRequest(f"Ignoring duplicate entity {entity}")
            quotas.check(entity, change)
            changes[entity] = change
        except InvalidRequest as error:
            refusals[number] = error
    if request.validate_only:
        return _respond(request, refusals, None)
    return wait_for(
        quotas.alter(changes),
        lambda stored: _respond(request, refusals, error_of(stored, LATE)),
        context.change_deadline_ms(TIMEOUT_MS),
    )


def error_response(request: AlterClientQuotasRequest, version: int, error: BaseException) -> AlterClientQuotasResponse:
    """Return `error` for each entity."""
    return AlterClientQuotasResponse(entries=[_result(row, error) for row in request.entries])


def _respond(
    request: AlterClientQuotasRequest, refusals: Refusals, error: KqueueError | None
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[_result(row, refusals.get(number, error)) for number, row in enumerate(request.entries)]
    )


def _result(row: EntryDataInRequest, error: BaseException | None) -> EntryDataInResponse:
    return EntryDataInResponse(
        error_code=code_of(error),
        error_message=message_of(error),
        entity=[EntityData(entity_type=part.entity_type, entity_name=part.entity_name) for part in row.entity],
    )
