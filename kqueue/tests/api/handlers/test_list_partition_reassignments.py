from __future__ import annotations

from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each
from kqueue.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)


@for_each("wanted", [None, [], [("a", [0])], [("zz", [0, 1])], [("a", [77])]])
def test_nothing_is_moved(wanted: list[tuple[str, list[int]]] | None) -> None:
    client = SimulatedClient()
    client.sim.topic("a")
    topics = wanted and [ListPartitionReassignmentsTopics(name=name, partition_indexes=rows) for name, rows in wanted]
    response = client.ask(ListPartitionReassignmentsRequest(topics=topics), 0)
    assert (response.error_code, response.error_message, response.topics) == (0, None, [])


def test_moves_are_listed_and_what_does_not_move_is_left_out() -> None:
    client = ClusterClient()
    still = PartitionRegistration((1, 2), (1, 2), 1)
    moving = PartitionRegistration((3, 1, 2), (1, 2), 1, adding=(3,), removing=(2,))
    client.topic("a", still, moving)
    client.topic("b", still)

    def moves(*wanted: tuple[str, list[int]]) -> list[tuple[str, list[tuple[int, list[int], list[int], list[int]]]]]:
        topics = [ListPartitionReassignmentsTopics(name=name, partition_indexes=rows) for name, rows in wanted]
        response = client.ask(ListPartitionReassignmentsRequest(topics=topics or None), 0)
        return [
            (
                topic.name,
                [
                    (row.partition_index, row.replicas, row.adding_replicas, row.removing_replicas)
                    for row in topic.partitions
                ],
            )
            for topic in response.topics
        ]

    assert moves() == moves(("a", [1])) == moves(("a", [0, 1, 1, 9, -1]), ("b", [0]), ("zz", [0]))
    assert moves() == [("a", [(1, [3, 1, 2], [3], [2])])]
    assert moves(("a", [0])) == []
