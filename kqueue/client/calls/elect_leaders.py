"""ElectLeaders: have preferred leaders elected, or leaders outside of the in-sync replicas."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from kqueue.client.calls.reassignments import Refusal
from kqueue.client.deadline import Deadline
from kqueue.client.retry_policy import response_error
from kqueue.client.topic_partition import TopicPartition, by_topic
from kqueue.wire.apis import BY_MODULE
from kqueue.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions


class ElectionType(enum.IntEnum):
    """The choice of the leader: the first replica, or for a partition without a leader any that is
    there.
    """

    PREFERRED = 0
    UNCLEAN = 1


class ElectLeaders:
    """ElectLeaders of some partitions. `partitions`: None: all. It has the same result repeated."""

    api = BY_MODULE["elect_leaders"]
    repeatable = True

    def __init__(
        self, election_type: ElectionType, partitions: Iterable[TopicPartition] | None, deadline: Deadline
    ) -> None:
        self.election_type = election_type
        self.partitions = None if partitions is None else list(partitions)
        self.deadline = deadline
        self.versions = (0 if election_type is ElectionType.PREFERRED else 1, 2)

    def request(self, version: int) -> ElectLeadersRequest:
        rows = None
        if self.partitions is not None:
            rows = [
                TopicPartitions(topic=name, partitions=[index for index, _ in parts])
                for name, parts in by_topic(dict.fromkeys(self.partitions)).items()
            ]
        return ElectLeadersRequest(
            election_type=self.election_type, topic_partitions=rows, timeout_ms=self.deadline.broker_timeout_ms
        )

    def result(self, version: int, response: ElectLeadersResponse, broker: str) -> dict[TopicPartition, Refusal]:
        """Return each partition's outcome, code 0: elected. Of all partitions a broker returns
        those only that needed an election.
        """
        if response.error_code:
            raise response_error(response.error_code, self.api.name, broker)
        return {
            TopicPartition(topic.topic, row.partition_id): Refusal(row.error_code, row.error_message)
            for topic in response.replica_election_results
            for row in topic.partition_result
        }
