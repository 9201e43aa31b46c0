"""Batches that were refused because this broker did not lead their partition, as long as others may
come that were sent behind them.

An idempotent producer has several requests in flight. If the first is refused, and the partition is
led when the next one arrives, the second has a gap before it. The plain answer, and Kafka's, is
OUT_OF_ORDER_SEQUENCE. librdkafka takes it for lost records: it begins a new epoch and writes all
that was not answered again, also what had been appended before a crash, so that it is there twice
(confluentinc/librdkafka#4953). Refused like the first, all are repeated in their order.
"""

from __future__ import annotations

from collections.abc import Hashable

from kqueue.base.errors import KqueueError, NotLeader
from kqueue.log.producer_state import SEQUENCE_MAX
from kqueue.records.batch import BatchHeader

BEHIND_MAX = 4
"""Batches in flight behind the first: clients bound them to five in all."""
NOTED_MAX = 10_000


class RefusedBatches:
    """The first refused batch of each producer and partition, up to `NOTED_MAX` of them; the oldest
    are forgotten. What is forgotten is answered OUT_OF_ORDER_SEQUENCE.
    """

    def __init__(self) -> None:
        self._noted: dict[tuple[Hashable, int, int], tuple[int, int]] = {}  # first sequence, batches left

    def note(self, partition: Hashable, header: BatchHeader) -> None:
        """Note a batch that is refused, unless it is itself behind one."""
        if header.producer_id < 0:
            return
        key = (partition, header.producer_id, header.producer_epoch)
        noted = self._noted.pop(key, None)
        first = header.base_sequence
        if noted is not None and _is_behind(first, noted[0]):
            first = noted[0]
        elif len(self._noted) >= NOTED_MAX:
            del self._noted[next(iter(self._noted))]
        self._noted[key] = first, BEHIND_MAX

    def check(self, partition: Hashable, header: BatchHeader, error: KqueueError) -> None:
        """Check a batch that has a gap before it: `error`.

        Raises: NotLeader: a batch before it was refused.
        """
        key = (partition, header.producer_id, header.producer_epoch)
        first, left = self._noted.get(key, (header.base_sequence, 0))
        if not left or not _is_behind(header.base_sequence, first):
            return
        self._noted[key] = first, left - 1
        raise NotLeader(f"{partition!r} was not led here when the batch before came, send both again: {error}")


def _is_behind(sequence: int, first: int) -> bool:
    return 0 < (sequence - first) & SEQUENCE_MAX < SEQUENCE_MAX // 2
