"""What the controller decides."""

from kqueue.replication.controller import DecisionOptions, decide
from kqueue.replication.registrations import PartitionRegistration
from kqueue.tests.replication.support import broker, brokers, image, topic

P = PartitionRegistration


def test_a_broker_without_session_is_fenced_and_replaced() -> None:
    before = image(brokers(1, 2, 3), t=topic(P((1, 2, 3), (1, 2, 3), 1)))
    decision = decide(before, {2: 1, 3: 1}, DecisionOptions(min_isr=2))
    assert decision.fenced == (broker(1, fenced=True),)
    assert decision.topics["t"].partitions == (P((1, 2, 3), (2, 3), 2, 1, 1),)
    assert not decision.unfenced
    assert decision.lines == (
        "broker 1 (epoch 1) is fenced: its session has ended",
        "t-0: leader 1 -> 2 (epoch 1), in sync [1,2,3] -> [2,3]",
    )
