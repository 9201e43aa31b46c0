"""The acknowledgements of a request, by partition."""

from __future__ import annotations

from kqueue.api.share_acknowledgements import acknowledgements_of
from kqueue.share.share_partition import Acknowledgement
from kqueue.wire.messages.share_acknowledge import AcknowledgementBatch, AcknowledgePartition, AcknowledgeTopic


def test_partitions_without_acknowledgements_are_left_out() -> None:
    batches = [AcknowledgementBatch(first_offset=3, last_offset=5, acknowledge_types=[1])]
    topics = [
        AcknowledgeTopic(
            topic_id=b"\1" * 16,
            partitions=[
                AcknowledgePartition(partition_index=0),
                AcknowledgePartition(partition_index=2, acknowledgement_batches=batches),
            ],
        )
    ]
    assert acknowledgements_of(topics) == {(b"\1" * 16, 2): [Acknowledgement(3, 5, [1])]}
