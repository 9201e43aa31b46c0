"""Which share coordinator is asked; see `tests/interbroker/test_share_states.py` for others that
answer.
"""

from __future__ import annotations

from typing import Any

from kqueue.base.errors import CoordinatorNotAvailable, KqueueError
from kqueue.broker.topics.topics import SHARE_TOPIC
from kqueue.replication.registrations import NO_LEADER, PartitionRegistration
from kqueue.share.share_state import SharePartitionKey, ShareUpdate
from kqueue.tests.api.cluster_client import ClusterClient
from kqueue.tests.api.harness import SimulatedClient
from kqueue.tests.tables import for_each

KEY = SharePartitionKey("g", b"\x05" * 16, 0)
SETTINGS = {"share.coordinator.state.topic.num.partitions": 1, "share.coordinator.state.topic.min.isr": 1}


class HeldStates:
    """A `RemoteShareStates` that notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, ...]] = []

    def read(self, *asked: Any) -> None:
        self.asked.append(("read", *asked[:-1]))

    def read_summary(self, *asked: Any) -> None:
        self.asked.append(("read_summary", *asked[:-1]))

    def initialize(self, *asked: Any) -> None:
        self.asked.append(("initialize", *asked[:-1]))

    def write(self, *asked: Any) -> None:
        self.asked.append(("write", *asked[:-1]))

    def delete(self, *asked: Any) -> None:
        self.asked.append(("delete", *asked[:-1]))


def test_a_single_broker_has_all_states_and_no_former_leaders() -> None:
    client = SimulatedClient()
    states, answers = client.sim.broker.share.states, list[Any]()
    states.read(KEY, 7, answers.append)
    states.initialize(KEY, 0, 5, answers.append)
    client.sim.settle()
    states.write(KEY, 0, 7, ShareUpdate(6, ()), answers.append)
    states.write(KEY, 0, 3, ShareUpdate(7, ()), answers.append)
    client.sim.settle()
    assert answers == [None] * 4
    states.read(KEY, 2, answers.append)
    states.read_summary(KEY, answers.append)
    assert answers[-1] == answers[-2]
    assert (answers[-1].start_offset, answers[-1].leader_epoch) == (7, 0)
    states.delete(KEY, answers.append)
    client.sim.settle()
    states.read_summary(KEY, answers.append)
    assert answers[-2:] == [None, None]


@for_each("leader", [1, 2, NO_LEADER])
def test_the_leader_of_the_states_partition_is_asked(leader: int) -> None:
    client, remote = ClusterClient(SETTINGS), HeldStates()
    broker, answers = client.sim.broker, list[KqueueError | None]()
    client.sim.result(broker.topics.create_on_demand(SHARE_TOPIC))
    broker.topics.partition(SHARE_TOPIC, 0).apply(PartitionRegistration((1, 2, 3), (leader,), leader, 1, 1))
    states = broker.share.states
    states.remote = remote
    update = ShareUpdate(6, ())
    states.initialize(KEY, 0, 5, answers.append)
    client.sim.settle()
    states.write(KEY, 0, 7, update, answers.append)
    states.read(KEY, 7, lambda state: None)
    states.read_summary(KEY, lambda state: None)
    states.delete(KEY, answers.append)
    client.sim.settle()
    if leader == 2:
        assert remote.asked == [
            ("initialize", 2, KEY, 0, 5),
            ("write", 2, KEY, 0, update._replace(leader_epoch=7)),
            ("read", 2, KEY, 7),
            ("read_summary", 2, KEY),
            ("delete", 2, KEY),
        ]
        assert not answers
    else:
        assert bool(answers) == (leader == 1), "where none is known, it is looked for again"
        client.sim.advance(15_000)
        assert not remote.asked
        expected = type(None) if leader == 1 else CoordinatorNotAvailable
        assert [type(error) for error in answers] == [expected] * 3
