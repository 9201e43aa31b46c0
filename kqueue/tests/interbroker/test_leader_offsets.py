from __future__ import annotations

from typing import Any

from kqueue.base.errors import KqueueError
from kqueue.interbroker.errors import BadPeerResponse, PeerError, PeerUnavailable
from kqueue.interbroker.leader_offsets import LeaderOffsets, ask_leader_offsets, ask_local_start
from kqueue.tests.broker.replicas.test_partition import append
from kqueue.tests.broker.replication import KAFKA
from kqueue.tests.interbroker.fetching_members import FetchingMembers
from kqueue.tests.tables import for_each
from kqueue.wire.messages.list_offsets import ListOffsetsResponse


def ask(members: FetchingMembers, epoch: int = 0) -> LeaderOffsets | KqueueError:
    answers: list[LeaderOffsets | KqueueError] = []
    ask_leader_offsets(members.peers[2], 2, 1, members.partition(2), epoch, answers.append)
    for _ in range(3):
        members.peers[2].deliver()
        super(FetchingMembers, members).settle()
    [only] = answers
    return only


def test_the_end_of_the_log_is_told_and_not_the_high_watermark() -> None:
    members = FetchingMembers(2, KAFKA)
    members.topic("t", [1, 2])
    append(members.partition(1), b"a", b"b")
    members.advance(1000)
    members.peers[2].down.add(1)
    members.advance(600)
    append(members.partition(1), b"c")
    members.partition(1).log.advance_start(1)
    members.peers[2].down.clear()
    assert members.partition(1).high_watermark == 2
    assert ask(members) == LeaderOffsets(1, 3)


def test_another_epoch_and_a_leader_that_is_away_are_errors() -> None:
    members = FetchingMembers(2, KAFKA)
    members.topic("t", [1, 2])
    members.settle()
    refused = ask(members, epoch=7)
    assert isinstance(refused, KqueueError)
    members.peers[2].down.add(1)
    assert isinstance(ask(members), PeerUnavailable)


@for_each("response", [ListOffsetsResponse(topics=[])])
def test_an_answer_of_another_form_is_an_error(response: Any) -> None:
    class Peers:
        def send(self, node_id: int, request: Any, done: Any, **_: Any) -> Any:
            done(response)

    members = FetchingMembers(2, KAFKA)
    members.topic("t", [1, 2])
    answers: list[Any] = []
    ask_leader_offsets(Peers(), 2, 1, members.partition(2), 0, answers.append)  # type: ignore[arg-type]
    assert isinstance(answers[0], BadPeerResponse)
    assert isinstance(answers[0], PeerError)


@for_each("skips_tiered", [False, True])
def test_local_start_of_a_leader_without_a_tier_is_its_log_start(skips_tiered: bool) -> None:
    members = FetchingMembers(2, KAFKA)
    members.topic("t", [1, 2])
    append(members.partition(1), b"a", b"b")
    members.partition(1).log.advance_start(1)
    answers: list[Any] = []
    ask_local_start(members.peers[2], 2, 1, members.partition(2), 0, answers.append, skips_tiered=skips_tiered)
    for _ in range(3):
        members.peers[2].deliver()
        super(FetchingMembers, members).settle()
    assert answers == [1]
