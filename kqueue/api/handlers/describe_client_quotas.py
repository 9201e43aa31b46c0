"""DescribeClientQuotas (key 48): find the quotas of users, client ids and addresses (KIP-546).

Versions 0 and 1: 1 flexible encoding. Source: Kafka's ClientQuotasImage.
"""

from __future__ import annotations

from kqueue.api.access import on_cluster
from kqueue.api.errors import code_of, message_of
from kqueue.api.request_context import RequestContext
from kqueue.security.operations import AclOperation
from kqueue.wire.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)

VERSIONS = (0, 1)
ACCESS = (on_cluster(AclOperation.DESCRIBE_CONFIGS),)


def handle(request: DescribeClientQuotasRequest, context: RequestContext) -> DescribeClientQuotasResponse:
    """Respond with the entities that the filter finds, and their own quotas."""
    from kqueue.security.quotas import filter_of  # on use: who has no quotas does not need them

    wanted = filter_of(
        ((row.entity_type, row.match_type, row.match) for row in request.components), strict=request.strict
    )
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
                values=[ValueData(key=key, value=value) for key, value in values.items()],
            )
            for entity, values in context.broker.security.quotas.matching(wanted)
        ],
    )


def error_response(
    request: DescribeClientQuotasRequest, version: int, error: BaseException
) -> DescribeClientQuotasResponse:
    """Return `error` for the whole request."""
    return DescribeClientQuotasResponse(error_code=code_of(error), error_message=message_of(error), entries=None)
