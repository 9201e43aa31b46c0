"""Reads the acknowledgements in a ShareAcknowledge or ShareFetch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kqueue.share.sessions import SessionPartition
from kqueue.share.share_partition import Acknowledgement


def acknowledgements_of(topics: Iterable[Any]) -> dict[SessionPartition, list[Acknowledgement]]:
    """Return the acknowledgements of each partition that has some, from a request's topics."""
    return {
        (bytes(topic.topic_id), int(partition.partition_index)): [
            Acknowledgement(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
        if partition.acknowledgement_batches
    }
