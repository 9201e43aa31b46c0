"""ListPartitionReassignments (key 46): the partitions that are being moved (KIP-455).

Version 0: of the partitions named, or null for all. There is one broker, so none is ever moved; a
partition that is not, or does not exist, is left out, as in Kafka.
"""

from __future__ import annotations

from kqueue.api.request_context import RequestContext
from kqueue.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

VERSIONS = (0, 0)


def handle(request: ListPartitionReassignmentsRequest, context: RequestContext) -> ListPartitionReassignmentsResponse:
    """Return no partition."""
    return ListPartitionReassignmentsResponse(error_message=None)
