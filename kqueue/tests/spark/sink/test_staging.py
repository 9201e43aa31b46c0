from __future__ import annotations

from kqueue.client import ProducerIdAndEpoch, TopicPartition
from kqueue.spark.sink.producer_pipeline import IdempotentProducer
from kqueue.spark.sink.staging import StagingPartitions, StagingSequences


def test_batches_of_a_target_are_in_one_staging_partition_and_none_is_in_the_journal() -> None:
    for task in range(9):
        staging = StagingPartitions("staging", 4, task)
        for partition in range(9):
            target = TopicPartition("out", partition)
            assert staging.of(target) == staging.of(target)
            assert staging.of(target).topic == "staging"
            assert 1 <= staging.of(target).partition <= 4


def test_targets_that_share_a_staging_partition_share_its_sequences() -> None:
    sequences = StagingSequences(IdempotentProducer(ProducerIdAndEpoch(7, 0)), StagingPartitions("staging", 2, 0))
    sequences.advance(TopicPartition("out", 0), 5)
    assert sequences.next_args(TopicPartition("out", 2))["base_sequence"] == 5
    assert sequences.next_args(TopicPartition("out", 1))["base_sequence"] == 0
