"""A producer of one transactional id, by bare requests."""

from __future__ import annotations

from kqueue.tests.api.harness import SimulatedClient
from kqueue.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from kqueue.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from kqueue.wire.messages.init_producer_id import InitProducerIdRequest


class TransactionClient(SimulatedClient):
    """The producer `producer_id` at `epoch`. Has the topic `t` with two partitions."""

    def __init__(self) -> None:
        super().__init__()
        self.sim.topic("t", partitions=2)
        self.producer_id = self.epoch = -1
        self.init()

    def init(self) -> None:
        """Become the producer of the transactional id ``tx``."""
        response = self.ask(InitProducerIdRequest(transactional_id="tx", transaction_timeout_ms=60_000), 4)
        assert response.error_code == 0
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    def add(self, *partitions: tuple[str, int], version: int = 3) -> dict[tuple[str, int], int]:
        """Return the error code of each partition."""
        topics: dict[str, list[int]] = {}
        for topic, index in partitions:
            topics.setdefault(topic, []).append(index)
        response = self.ask(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id="tx",
                v3_and_below_producer_id=self.producer_id,
                v3_and_below_producer_epoch=self.epoch,
                v3_and_below_topics=[
                    AddPartitionsToTxnTopic(name=topic, partitions=indexes) for topic, indexes in topics.items()
                ],
            ),
            version,
        )
        return {
            (topic.name, partition.partition_index): partition.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for partition in topic.results_by_partition
        }

    def end(self, version: int = 5, *, commit: bool = True) -> EndTxnResponse:
        """Return the response; from version 5 on, continue with its epoch."""
        response = self.ask(
            EndTxnRequest(
                transactional_id="tx", producer_id=self.producer_id, producer_epoch=self.epoch, committed=commit
            ),
            version,
        )
        assert isinstance(response, EndTxnResponse)
        if version >= 5 and response.error_code == 0:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
        return response
